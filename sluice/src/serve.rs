//! `sluice serve`: starts both planes, connects them, and shuts them down on a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sluice_config::{BindResult, Change, Delta, ErrorLog, GroupId, ListenerGroup, Report, Snapshot};
use sluice_controller::admission::{self, Reviewed};
use sluice_controller::duties::DutyNews;
use sluice_controller::input::{self, Input};
use sluice_controller::run::Applied;
use sluice_controller::store::{IngressChanges, References};
use sluice_controller::translate::global_settings::KeyValue;
use sluice_controller::{Controller, Duties, NameResolver, Observe, ProblemChanges};
use sluice_gateway::admin;
use sluice_gateway::data_plane::DataPlane;
use sluice_gateway::location::LocationFiles;
use sluice_gateway::registry::HostAddresses;
use sluice_gateway::state::State;
use sluice_gateway::state::setting_values::{SettingOrigin, SettingValue};
use sluice_gateway::telemetry::{self, AccessLog, ReviewSample, Telemetry};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::cgroup;
use crate::critical_parts::{self, CriticalParts, PartEnded};
use crate::flags::{GatewayFlags, ServeFlags};
use crate::geoip;
use crate::limits;
use crate::logging::ProgramLog;
use crate::memory;
use crate::signals::EndSignals;
use crate::source::{Feedback, Source};

/// Time limit for the end of the control plane, which writes the snapshot a last time.
const CONTROL: Duration = Duration::from_secs(10);
/// Interval between two attempts to open the file of the program log.
const LOG_AGAIN: Duration = Duration::from_secs(1);
/// Time limit for writing the last lines of a log.
pub(crate) const FLUSH: Duration = Duration::from_secs(2);

/// Runs the gateway until SIGTERM, SIGINT or SIGHUP, or until a port turns out to be in use at the
/// start.
///
/// # Errors
/// A resource that is required at the start is missing, or a part of the program has
/// [ended](PartEnded).
pub(crate) fn serve(flags: ServeFlags, log: ProgramLog) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(run(&flags, log));
    // A name that is still looked up does not delay the end.
    runtime.shutdown_background();
    served
}

async fn run(flags: &ServeFlags, program_log: ProgramLog) -> Result<()> {
    // Must come first: without a handler, this signal ends the program.
    let rotate = signal(SignalKind::user_defined1())?;
    let mut signals = EndSignals::new()?;
    let (parts, mut ended) = CriticalParts::new();
    let log = AccessLog::watched(std::io::stdout(), parts.token("the thread that writes the access log"))
        .context("cannot start the thread of the access log")?;
    let token = parts.token("the thread that writes the log of streams");
    let stream_log = AccessLog::watched(std::io::stdout(), token)
        .context("cannot start the thread of the log of streams")?;
    let telemetry = Telemetry::new(metrics(flags), log)?.with_stream_log(stream_log);
    let telemetry = Arc::new(telemetry.with_program_log(program_log.lines()));
    let (inputs, received) = input::channel();
    let further_inputs = inputs.downgrade();
    let names_inputs = inputs.downgrade();
    let (duty_inputs, webhook_inputs) = (inputs.downgrade(), inputs.downgrade());
    let Some(started) = signals.or(Source::start(flags, inputs)).await else { return Ok(()) };
    let (source, options) = started?;
    if let Some(api_health) = source.api_health() {
        telemetry.watch_source(api_health);
    }
    limits::advise();
    let workers = cgroup::workers();
    let (plane, reports) = DataPlane::start(workers, flags.gateway.engine, telemetry)?;
    if let Some(folder) = &flags.gateway.body_temp_path {
        plane.keep_bodies_in(folder.clone());
    }
    if let Some(folder) = &flags.gateway.cache_path {
        plane.keep_responses_in(folder);
    }
    if let Some(agent) = flags.controller.waf_agent {
        plane.inspect_with(agent, flags.gateway.waf_timeout);
    }
    if let Some(folder) = &flags.geoip.path {
        let Some(()) = signals.or(geoip::download(&flags.geoip)).await else { return Ok(()) };
        let editions = flags.geoip.editions.clone();
        plane.read_locations(LocationFiles { folder: folder.clone(), editions });
    }
    plane.state().set_health_path(flags.gateway.health_check_path.clone());
    plane.state().setting_values.set_flags(flags.values.clone());
    let plane = Arc::new(plane);
    let log_changed = Arc::new(Notify::new());
    tokio::spawn(keep_logs(rotate, log_changed.clone(), program_log.clone(), plane.state().clone()));
    admin::serve(plane.state().clone(), admin_options(&flags.gateway)).await?;
    let (fatal, mut failed) = mpsc::unbounded_channel();
    let controller = Controller::new(options);
    let feedback = source.feedback(flags);
    let snapshot = source.snapshots(&feedback, parts.token("the thread that writes --snapshot-file"))?;
    let for_control = plane.clone();
    let names_token = parts.token("the thread that looks names up");
    let names = NameResolver::start(flags.resolv_conf.clone(), names_inputs, names_token)
        .context("cannot start the thread that looks names up")?;
    let look_ups = names.look_ups();
    plane.state().registry.look_up_hosts_with(Box::new(move |name| {
        let look_ups = look_ups.clone();
        Box::pin(async move {
            let (addresses, holds) = look_ups.look_up(&name).await?;
            Some(HostAddresses { addresses, holds })
        })
    }));
    if let Some(webhook) = flags.webhook.options() {
        let telemetry = plane.state().telemetry.clone();
        let on_review = Arc::new(move |reviewed: &Reviewed| telemetry.reviewed(&review_sample(reviewed)));
        let start = admission::start(webhook, &flags.controller, webhook_inputs, on_review);
        let Some(webhook) = signals.or(start).await else { return Ok(()) };
        parts.spawn("the validating webhook", webhook?);
    }
    let Some(duties) = signals.or(source.duties(flags, duty_inputs)).await else { return Ok(()) };
    let duties = duties?;
    let news = duties.as_ref().map(Duties::news).unwrap_or_default();
    if let Some(duties) = &duties
        && !flags.duties.disable_leader_election
    {
        let telemetry = plane.state().telemetry.clone();
        tokio::spawn(show_leader(duties.leading(), flags.duties.election_id.clone(), telemetry));
    }
    let observer = Observer { state: plane.state().clone(), feedback, names, duties: news };
    let token = parts.token("the thread of the control plane");
    let (over, control_over) = oneshot::channel::<()>();
    thread::Builder::new().name("control".into()).spawn(move || {
        // Declared first and therefore dropped last: when its drop is observed, all other values of
        // the thread have been dropped and the last snapshot has been written.
        let _over = over;
        let (plane, snapshot, fatal, mut observer) = (for_control, snapshot, fatal, observer);
        let mut start = true;
        let mut error_log = ErrorLog::default();
        let apply = |delta: Delta| {
            // Not with the first delta, before which nothing is ready.
            if delta.generation.0 > 2 {
                critical_parts::inject_fault("control");
            }
            if let Some(settings) = &delta.settings
                && error_log != settings.error_log
            {
                error_log = settings.error_log.clone();
                plane
                    .state()
                    .problems
                    .set_log_fault("program", program_log.change(&error_log).err().as_ref());
                log_changed.notify_one();
            }
            let report = apply(&plane, &delta, &mut start, &fatal);
            if let Some(snapshot) = &snapshot {
                snapshot.applied(delta);
            }
            report
        };
        sluice_controller::run(controller, received, apply, &mut observer);
        token.because_of("the thread that reads the configuration");
    })?;
    let reports = pass_reports(reports, further_inputs, parts.clone());
    parts.spawn("the task that passes on reports of the data plane", reports);
    parts.spawn("the task that gives memory back", memory::give_back());
    let died = tokio::select! {
        Some(message) = failed.recv() => bail!("{message}"),
        () = signals.next() => None,
        Some(part) = ended.recv() => Some(part),
    };
    if let Some(part) = died {
        tracing::error!("{}", PartEnded(part.to_owned()));
    }
    // In parallel with the drain, and within its time limit: records in the cluster that this
    // replica ends.
    let duties_end = tokio::spawn(async {
        if let Some(duties) = duties {
            duties.end().await;
        }
    });
    let grace = flags.gateway.shutdown_grace_period;
    tracing::info!(
        ?grace,
        "draining: new connections are accepted for the grace period, then running requests finish"
    );
    let drain = async {
        if !plane.end(grace).await {
            tracing::warn!("worker-shutdown-timeout is over; what still ran was cut off");
        }
        tokio::time::sleep(flags.gateway.post_shutdown_grace_period).await;
    };
    tokio::select! {
        () = drain => {}
        () = signals.next() => tracing::warn!("second signal: ending at once"),
    }
    tokio::select! {
        _ = duties_end => {}
        () = signals.next() => {}
    }
    drop(source);
    tokio::select! {
        // The control plane ends after its source. The channel only signals its end by the drop of
        // the sender. A panic of the control plane was already logged.
        _ = control_over => {}
        () = tokio::time::sleep(CONTROL) => tracing::warn!(limit = ?CONTROL, "the control plane does not end; going without it"),
        () = signals.next() => {}
    }
    plane.state().telemetry.access_log.flush(FLUSH);
    plane.state().telemetry.stream_log.flush(FLUSH);
    died.map_or(Ok(()), |part| Err(PartEnded(part.to_owned()).into()))
}

fn review_sample(reviewed: &Reviewed) -> ReviewSample<'_> {
    let Reviewed { name, allowed, bytes, looked_at, verdict, total } = reviewed;
    ReviewSample {
        namespace: &name.namespace,
        ingress: &name.name,
        allowed: *allowed,
        bytes: *bytes,
        tested: *looked_at,
        verdict: *verdict,
        total: *total,
    }
}

/// Reopens the files of both logs on SIGUSR1 after log rotation, and retries the file of the
/// program log while it cannot be opened.
async fn keep_logs(mut rotate: Signal, changed: Arc<Notify>, log: ProgramLog, state: Arc<State>) {
    loop {
        let again = async {
            match log.writes_to_stderr() {
                true => tokio::time::sleep(LOG_AGAIN).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = rotate.recv() => {
                state.telemetry.access_log.open_again();
                state.telemetry.stream_log.open_again();
            }
            () = changed.notified() => continue,
            () = again => {}
        }
        state.problems.set_log_fault("program", log.open_again().err().as_ref());
    }
}

/// Exports in the metrics whether this replica leads.
async fn show_leader(mut leading: watch::Receiver<bool>, election: String, telemetry: Arc<Telemetry>) {
    loop {
        telemetry.leads(&election, *leading.borrow_and_update());
        if leading.changed().await.is_err() {
            return telemetry.leads(&election, false);
        }
    }
}

/// Applies a delta. A port that cannot be bound at the start ends the program, because the operator
/// who has just started it can react. Later, the error is logged and everything else is served. An
/// address that the machine does not have yet is retried even at the start, because it may be
/// moving from another machine.
fn apply(
    plane: &DataPlane,
    delta: &Delta,
    start: &mut bool,
    fatal: &mpsc::UnboundedSender<String>,
) -> Report {
    let (acknowledged, others) = plane.apply(delta);
    let start = !delta.groups.is_empty() && std::mem::take(start);
    let is_required = |id: &GroupId| {
        let put = |change: &Change<_, Arc<ListenerGroup>>| matches!(change, Change::Put(put, group) if put == id && group.required);
        delta.groups.iter().any(put)
    };
    if start && let Some(error) = others.iter().find_map(|report| is_fatal(report, is_required)) {
        // The receiver lives as long as the program.
        let _ = fatal.send(error);
        return acknowledged;
    }
    others.iter().for_each(log);
    acknowledged
}

/// Returns the reason why the program cannot start.
fn is_fatal(report: &Report, is_required: impl Fn(&GroupId) -> bool) -> Option<String> {
    let Report::Binds { group, results } = report else { return None };
    if !is_required(group) {
        return None;
    }
    let mut errors = results.iter().filter_map(|result| result.error.as_ref());
    errors.find(|error| !error.foreign).map(ToString::to_string)
}

/// Logs reports that the data plane sends on its own and passes them on to the control plane. Ends
/// the program if a part of the data plane has died.
async fn pass_reports(
    mut reports: mpsc::UnboundedReceiver<Report>,
    inputs: mpsc::WeakSender<Input>,
    parts: CriticalParts,
) {
    while let Some(report) = reports.recv().await {
        if let Report::Died { part } = report {
            tracing::error!(part, "a part of the data plane has ended");
            drop(parts.token("a part of the data plane"));
            continue;
        }
        log(&report);
        if let Some(inputs) = inputs.upgrade() {
            // Sending only fails during shutdown, when the receiver is gone.
            let _ = inputs.send(Input::Report(report)).await;
        }
    }
}

fn log(report: &Report) {
    match report {
        Report::Binds { results, .. } => {
            for BindResult { address, error } in results {
                match error {
                    None => tracing::info!(%address, "listening"),
                    Some(error) => tracing::error!(%address, "{error}; it is tried again every second"),
                }
            }
        }
        Report::EndpointEjected { set, address, duration } => {
            tracing::warn!(%set, %address, ?duration, "an endpoint is ejected: connections to it fail");
        }
        Report::Applied { .. } | Report::Died { .. } => {}
    }
}

/// Passes events of the control plane to metrics and introspection, and feedback to the source.
struct Observer {
    state: Arc<State>,
    feedback: Feedback,
    names: NameResolver,
    duties: DutyNews,
}

impl Observe for Observer {
    fn applied(&mut self, applied: &Applied) {
        self.feedback.is_complete();
        for (node, count) in applied.stats.by_kind() {
            self.state.telemetry.nodes_recomputed(node, count as u64);
        }
    }

    fn problems(&mut self, changes: &ProblemChanges) {
        self.state.problems.change(&changes.appeared, &changes.resolved);
        self.duties.problems(changes);
    }

    fn ingresses(&mut self, changes: IngressChanges) {
        self.duties.ingresses(changes);
    }

    fn skipped(&mut self, kinds: &BTreeMap<String, usize>) {
        let kinds = kinds.iter().map(|(kind, count)| (&**kind, *count as u64));
        self.state.telemetry.skipped_objects(kinds);
    }

    fn keys(&mut self, keys: Vec<KeyValue>) {
        let value = |KeyValue { name, value, is_set }| {
            let origin = if is_set { SettingOrigin::ConfigMap } else { SettingOrigin::Default };
            SettingValue { name, value, origin }
        };
        self.state.setting_values.set_keys(keys.into_iter().map(value).collect());
    }

    fn names(&mut self, names: BTreeSet<Arc<str>>) {
        self.names.want(names);
    }

    fn references(&mut self, changes: References) {
        self.feedback.references(changes);
    }

    fn startup_snapshot(&mut self) -> Option<Snapshot> {
        self.feedback.startup_snapshot()
    }
}

fn metrics(flags: &ServeFlags) -> telemetry::TelemetryOptions {
    let gateway = flags.gateway.clone();
    telemetry::TelemetryOptions {
        enable_metrics: gateway.enable_metrics,
        per_host: gateway.metrics_per_host,
        per_undefined_host: gateway.metrics_per_undefined_host,
        status_classes: gateway.report_status_classes,
        exclude: gateway.exclude_socket_metrics,
        time_buckets: gateway.time_buckets,
        bucket_factor: gateway.bucket_factor,
        max_buckets: usize::try_from(gateway.max_buckets).unwrap_or(0),
        length_buckets: gateway.length_buckets,
        size_buckets: gateway.size_buckets,
        controller_namespace: gateway.pod_namespace,
        controller_class: flags.controller.controller_class.clone(),
        controller_pod: gateway.pod_name,
        ..telemetry::TelemetryOptions::default()
    }
}

fn admin_options(flags: &GatewayFlags) -> admin::AdminOptions {
    let admin: SocketAddr = flags.admin_address;
    admin::AdminOptions { health_host: flags.healthz_host, health_port: flags.healthz_port, admin }
}
