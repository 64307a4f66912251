//! Settings with their values and origins.

use askama::Template;

use super::listing::{Listing, passes};
use super::{Frame, Input};
use crate::state::setting_values::{SettingOrigin, SettingValue};

#[derive(Template)]
#[template(path = "settings.html")]
pub(super) struct SettingsPage {
    frame: Frame,
    only_set: bool,
    listing: Listing,
    rows: Vec<SettingValue>,
}

pub(super) fn page(input: &Input<'_>, frame: Frame) -> SettingsPage {
    let filter = input.parameters.filter();
    let only_set = input.parameters.has("set");
    let values = &input.state.setting_values;
    let (keys, flags) = (values.keys(), values.flags());
    let wanted = |setting: &&SettingValue| {
        (!only_set || setting.origin != SettingOrigin::Default)
            && passes(&filter, &[&setting.name, &setting.value])
    };
    let mut all: Vec<SettingValue> = keys.iter().chain(&**flags).filter(wanted).cloned().collect();
    // Stable: within an origin, settings keep the order of their tables.
    all.sort_by_key(|setting| setting.origin == SettingOrigin::Default);
    let (listing, rows) = input.parameters.page(all, &["set"]);
    SettingsPage { frame, only_set, listing, rows }
}
