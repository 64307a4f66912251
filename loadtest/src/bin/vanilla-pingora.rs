//! Pingora with default settings, for the benchmark.

#[path = "../pingora/vanilla.rs"]
mod vanilla;

fn main() {
    vanilla::serve(true);
}
