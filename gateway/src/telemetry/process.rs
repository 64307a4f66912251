//! Resource usage of the process, under the reference's names for nginx processes and the usual
//! `process_*` names.

use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge, Opts, Registry};

use super::error::TelemetryError;
use super::options::Options;

struct ReferenceProcess {
    process: ProcessCollector,
    processes: Gauge,
    cpu: Counter,
    resident: Gauge,
    virtual_memory: Gauge,
    start: Gauge,
    read: Counter,
    written: Counter,
}

pub(super) fn register(options: &Options, registry: &Registry) -> Result<(), TelemetryError> {
    let opts = |name: &str, help: &str| -> Opts { super::reference_opts(options, name, help) };
    registry.register(Box::new(ProcessCollector::for_self()))?;
    registry.register(Box::new(ReferenceProcess {
        process: ProcessCollector::for_self(),
        processes: Gauge::with_opts(opts("nginx_process_num_procs", "Serving processes; always 1."))?,
        cpu: Counter::with_opts(opts("nginx_process_cpu_seconds_total", "CPU time, seconds."))?,
        resident: Gauge::with_opts(opts("nginx_process_resident_memory_bytes", "Memory in RAM."))?,
        virtual_memory: Gauge::with_opts(opts("nginx_process_virtual_memory_bytes", "Address space."))?,
        start: Gauge::with_opts(opts(
            "nginx_process_oldest_start_time_seconds",
            "When the process started, Unix seconds.",
        ))?,
        read: Counter::with_opts(opts("nginx_process_read_bytes_total", "Bytes read from storage."))?,
        written: Counter::with_opts(opts("nginx_process_write_bytes_total", "Bytes written to storage."))?,
    }))?;
    Ok(())
}

impl Collector for ReferenceProcess {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.processes.desc();
        all.extend(self.cpu.desc());
        all.extend(self.resident.desc());
        all.extend(self.virtual_memory.desc());
        all.extend(self.start.desc());
        all.extend(self.read.desc());
        all.extend(self.written.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.processes.set(1.0);
        for family in self.process.collect() {
            let Some(metric) = family.get_metric().first() else { continue };
            match family.name() {
                "process_cpu_seconds_total" => raise(&self.cpu, metric.get_counter().get_value()),
                "process_resident_memory_bytes" => self.resident.set(metric.get_gauge().get_value()),
                "process_virtual_memory_bytes" => self.virtual_memory.set(metric.get_gauge().get_value()),
                "process_start_time_seconds" => self.start.set(metric.get_gauge().get_value()),
                _ => (),
            }
        }
        // The file is absent on kernels without I/O accounting; both counters then remain 0.
        for line in std::fs::read_to_string("/proc/self/io").unwrap_or_default().lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            let counter = match name {
                "read_bytes" => &self.read,
                "write_bytes" => &self.written,
                _ => continue,
            };
            raise(counter, value.parse().unwrap_or_default());
        }
        let mut all = self.processes.collect();
        all.extend(self.cpu.collect());
        all.extend(self.resident.collect());
        all.extend(self.virtual_memory.collect());
        all.extend(self.start.collect());
        all.extend(self.read.collect());
        all.extend(self.written.collect());
        all
    }
}

fn raise(counter: &Counter, value: f64) {
    counter.reset();
    counter.inc_by(value);
}
