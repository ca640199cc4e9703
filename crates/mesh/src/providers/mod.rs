//! Where the instances of a service are, one provider per cluster, cloud or fleet.
//!
//! A provider resolves the name of a service in its own way. It knows nothing of what was declared
//! about traffic, nor of who will use the answer; a test over the source of this module holds it to
//! that.
pub mod azure;
mod kubernetes;
mod memory;

pub use kubernetes::KubernetesProvider;
pub use memory::MemoryProvider;

use crate::address::Placed;
use crate::announce::Announcements;
use crate::names::ServiceName;

/// Why a provider cannot answer now. What it said before stays in use, marked as stale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider {provider} cannot list endpoints: {reason}")]
pub struct ProviderError {
    pub provider: String,
    pub reason: String,
}

/// Lists endpoints for services.
#[async_trait::async_trait]
pub trait EndpointsProvider: Send + Sync + 'static {
    /// Unique among the providers of a catalog; people see it in the status.
    fn name(&self) -> &str;

    /// Of all its ports. An unknown service has no endpoints; that is no error.
    async fn list_endpoints(&self, service: &ServiceName) -> Result<Vec<Placed>, ProviderError>;

    /// Names each service whose endpoints changed. A provider that cannot tell announces what it
    /// was asked for whenever it looked again.
    fn announcements(&self) -> Announcements<ServiceName>;
}
