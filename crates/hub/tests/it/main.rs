//! The hub from the outside, on a store in memory.
mod artifacts;
mod batches;
mod composed;
mod concurrency;
mod deletion;
mod events;
mod index;
mod layers;
mod lineage;
mod lists;
mod ownership;
mod parts;
mod patches;
mod projects;
mod support;
mod watches;
mod writes;
