//! Pingora as it comes, for the benchmark.

#[path = "../pingora/vanilla.rs"]
mod vanilla;

fn main() {
    vanilla::serve(true);
}
