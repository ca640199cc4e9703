//! The real Terraform, with the provider as it was built, and a server in this process.
mod classic;
mod documents;
mod harness;
mod kinds;
mod life;
mod wrong;

use harness::Terraform;
