//! Pools with the health of their endpoints.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;

use super::listing::{Listing, passes};
use super::{Frame, Input};
use crate::admin::format;
use crate::admin::view;
use crate::registry::{EndpointDescription, Health, PoolDescription};

#[derive(Template)]
#[template(path = "pools.html")]
pub(super) struct PoolsPage {
    frame: Frame,
    only_unhealthy: bool,
    listing: Listing,
    rows: Vec<Row>,
}

/// An endpoint as a line, or a pool without endpoints.
struct Row {
    pool: String,
    protocol: &'static str,
    balance: &'static str,
    address: String,
    zone: String,
    health: &'static str,
    class: &'static str,
    ejected: String,
    failures: String,
    in_flight: String,
}

/// A line before it is formatted.
type Candidate = (Arc<PoolDescription>, Option<EndpointDescription>);

pub(super) fn page(input: &Input<'_>, frame: Frame) -> PoolsPage {
    let filter = input.parameters.filter();
    let only_unhealthy = input.parameters.has("unhealthy");
    let mut all: Vec<Candidate> = Vec::new();
    for mut pool in input.state.registry.describe() {
        let endpoints = std::mem::take(&mut pool.endpoints);
        let is_named = passes(&filter, &[&pool.pool]);
        let pool = Arc::new(pool);
        if endpoints.is_empty() && is_named {
            all.push((pool.clone(), None));
        }
        for endpoint in endpoints {
            let passes = is_named || passes(&filter, &[&endpoint.address.to_string()]);
            if passes && !(only_unhealthy && endpoint.health == Health::Healthy) {
                all.push((pool.clone(), Some(endpoint)));
            }
        }
    }
    let (listing, shown) = input.parameters.page(all, &["unhealthy"]);
    let rows = shown.iter().map(|(pool, endpoint)| row(pool, endpoint.as_ref())).collect();
    PoolsPage { frame, only_unhealthy, listing, rows }
}

fn row(pool: &PoolDescription, endpoint: Option<&EndpointDescription>) -> Row {
    let (health, class) = match endpoint.map(|endpoint| endpoint.health) {
        None => ("no endpoints", "error"),
        Some(Health::Healthy) => ("healthy", "good"),
        Some(Health::Ejected) => ("ejected", "warning"),
        Some(Health::Failing) => ("fails checks", "error"),
    };
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let left = endpoint.and_then(|endpoint| endpoint.ejected_for_ms).map(Duration::from_millis);
    Row {
        pool: pool.pool.clone(),
        protocol: view::protocol(pool.protocol),
        balance: view::balance(pool.balance),
        address: text(endpoint.map(|endpoint| endpoint.address.to_string())),
        zone: text(endpoint.and_then(|endpoint| endpoint.zone.as_ref()).map(ToString::to_string)),
        health,
        class,
        ejected: text(left.map(format::took)),
        failures: text(endpoint.map(|endpoint| endpoint.failures.to_string())),
        in_flight: text(endpoint.map(|endpoint| endpoint.in_flight.to_string())),
    }
}
