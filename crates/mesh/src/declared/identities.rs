//! Whom a traffic target means.
//!
//! A proxy's identity is the service it fronts. A target speaks of service accounts: those are the
//! services that name the account, or the service of that name.
use super::{Declarations, service_name};
use crate::names::ServiceName;
use orrery_hub::ObjectName;
use orrery_proto::smi::access::v1alpha4::{IdentityBindingSchemes, IdentityBindingSubject};
use std::collections::BTreeSet;

impl Declarations {
    /// The services that a subject of a target in `project` means.
    pub(super) fn identities(
        &self,
        project: &str,
        subject: &IdentityBindingSubject,
    ) -> Result<BTreeSet<ServiceName>, String> {
        let project = subject.namespace.as_deref().unwrap_or(project);
        match subject.kind() {
            "ServiceAccount" => self.account(project, subject.name()),
            "Service" | "MeshService" => Ok([service_name(project, subject.name())?].into()),
            "IdentityBinding" => self.binding(&ObjectName::new(project, subject.name())),
            other => Err(format!(
                "it names a {other:?}, which means nobody here; use ServiceAccount or IdentityBinding"
            )),
        }
    }

    /// An account that no service names is the service of that name, declared or not: a caller needs
    /// no declaration to have an identity.
    fn account(&self, project: &str, account: &str) -> Result<BTreeSet<ServiceName>, String> {
        let of_project = self.services.iter().filter(|(name, _)| name.project == project);
        let named = of_project.filter(|(_, service)| {
            let spec = service.spec.as_ref();
            spec.and_then(|spec| spec.service_account.as_deref()) == Some(account)
        });
        let mut found = BTreeSet::new();
        for (name, _) in named {
            found.insert(service_name(&name.project, &name.name)?);
        }
        let own = self.services.get(&ObjectName::new(project, account));
        let has_other = own.is_some_and(|service| {
            let spec = service.spec.as_ref();
            spec.and_then(|spec| spec.service_account.as_ref()).is_some_and(|one| one != account)
        });
        if !has_other {
            found.insert(service_name(project, account)?);
        }
        Ok(found)
    }

    fn binding(&self, name: &ObjectName) -> Result<BTreeSet<ServiceName>, String> {
        let spec = self.bindings.get(name).and_then(|binding| binding.spec.as_ref());
        let Some(schemes) = spec.and_then(|spec| spec.schemes.as_ref()) else {
            return Err(format!("there is no IdentityBinding {:?} (yet)", name.name));
        };
        let mut found = self.labelled(&name.project, schemes)?;
        if let Some(account) = &schemes.service_account {
            found.extend(self.account(&name.project, account)?);
        }
        for id in &schemes.spiffe_identities {
            found.insert(by_spiffe(&name.project, id)?);
        }
        Ok(found)
    }

    fn labelled(
        &self,
        project: &str,
        schemes: &IdentityBindingSchemes,
    ) -> Result<BTreeSet<ServiceName>, String> {
        let mut found = BTreeSet::new();
        for (name, service) in self.services.iter().filter(|(name, _)| name.project == project) {
            let labels = service.metadata.as_ref().map(|metadata| &metadata.labels);
            let is_meant = schemes.pod_label_selectors.iter().any(|selector| {
                let has = |(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value);
                selector.match_labels.iter().all(has)
            });
            if is_meant {
                found.insert(service_name(&name.project, &name.name)?);
            }
        }
        Ok(found)
    }
}

/// A binding declares identities of its own project only.
fn by_spiffe(project: &str, id: &str) -> Result<ServiceName, String> {
    let id = id.strip_prefix("spiffe://").unwrap_or(id);
    let form = "<trust domain>/proxy/<service>.<project>";
    let name = id.split_once("/proxy/").map(|(_, name)| name);
    let service = name.and_then(|name| {
        let mut parts = name.splitn(3, '.');
        let (service, of) = (parts.next()?, parts.next()?);
        (of == project).then(|| service_name(of, service).ok()).flatten()
    });
    service.ok_or_else(|| {
        format!("its SPIFFE id {id:?} is not of a proxy of this project; write it as {form}")
    })
}
