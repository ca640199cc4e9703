//! The edge and the plans, through their public faces.
mod cluster;
mod defects;
mod deployments;
mod example;
mod hub;
mod lifetimes;
mod meltdown;
mod misbehaviour;
mod newer;
mod old_driver;
mod reading;
mod rollout;
mod standby;
mod tls;
mod world;
