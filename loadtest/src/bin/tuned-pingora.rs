//! `vanilla-pingora` with tuned settings: another allocator, no work stealing.

#[path = "../pingora/vanilla.rs"]
mod vanilla;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    vanilla::serve(false);
}
