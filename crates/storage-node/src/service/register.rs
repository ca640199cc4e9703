//! Keeps the controller's entry in the registry fresh.
use super::Endpoint;
use crate::{Volumes, volume::Media};
use orrery_proto::oim::v0::{RegisterControllerRequest, registry_client::RegistryClient};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// A call to a registry that hangs must not stop the refreshing.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The first wait after a failure; it doubles up to the refresh interval.
const RETRY_FIRST: Duration = Duration::from_millis(500);

/// What to register, where, and how often.
#[derive(Clone)]
pub struct Registration {
    pub registry: Endpoint,
    pub controller_id: String,
    /// Where the registry's proxy can reach this controller.
    pub address: String,
    /// Repeated at this interval, so that a registry that lost its entries learns of us again.
    pub refresh_interval: Duration,
    /// Whose backend and room the registry is told of, if of any.
    pub volumes: Option<Arc<Volumes>>,
}

/// Registers the controller, again and again, until `stop` is cancelled. The entry stays when the
/// controller stops: it is usually back soon, and a registry shows who has not been heard of.
pub async fn keep_registered(registration: Registration, stop: CancellationToken) {
    let mut client = RegistryClient::new(registration.registry.channel());
    let mut retry = RETRY_FIRST;
    let mut known = false;
    loop {
        let wait = match register(&mut client, &registration).await {
            Ok(()) => {
                if !known {
                    tracing::info!(controller = registration.controller_id, "registered");
                }
                (known, retry) = (true, RETRY_FIRST);
                registration.refresh_interval
            }
            Err(status) => {
                let (controller, registry) = (&registration.controller_id, &registration.registry);
                let reason = format_args!("{:?}: {}", status.code(), status.message());
                tracing::warn!(controller, %registry, %reason, "cannot register");
                (known, retry) = (false, (retry * 2).min(registration.refresh_interval));
                retry
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn register(
    client: &mut RegistryClient<tonic::transport::Channel>,
    registration: &Registration,
) -> Result<(), tonic::Status> {
    let mut message = RegisterControllerRequest {
        controller_id: registration.controller_id.clone(),
        address: registration.address.clone(),
        refresh_seconds: i64::try_from(registration.refresh_interval.as_secs()).unwrap_or_default(),
        ..RegisterControllerRequest::default()
    };
    if let Some(volumes) = &registration.volumes {
        volumes.backend().clone_into(&mut message.backend);
        volumes.id().clone_into(&mut message.books);
        // A backend that cannot say how much room it has registers all the same.
        if let Ok(room) = volumes.capacity(Media::File).await {
            message.capacity_bytes = i64::try_from(room.total_bytes).unwrap_or(i64::MAX);
            message.available_bytes = i64::try_from(room.available_bytes).unwrap_or(i64::MAX);
        }
    }
    let mut request = tonic::Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    client.register_controller(request).await.map(|_| ())
}
