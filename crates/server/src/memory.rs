//! What the allocator keeps of what was let go.

/// Gives back what the allocator keeps for this thread alone. A thread that rests does not come to it by itself.
/// Nothing happens in a program with another allocator.
#[allow(unsafe_code, reason = "a function of the allocator, which is written in C")]
pub fn give_back() {
    // SAFETY: it may be called at any time, on any thread, and takes nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
