//! The edge and the plans, through their public faces.
mod defects;
mod example;
mod misbehaviour;
mod newer;
mod old_driver;
mod reading;
mod standby;
mod tls;
mod world;
