//! A host of our own: it starts the provider as Terraform does, and holds it to the contract.
mod certificate;
mod contract;
mod process;
mod schema;

use certificate::Certificate;
use process::Host;
