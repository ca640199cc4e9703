//! How things of the mesh are called. No module of this crate is too poor to know a name.
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The project of a service that is named without one.
pub const PROJECT_DEFAULT: &str = "default";
/// As in DNS, because service names become host names.
const LABEL_BYTES_MAX: usize = 63;

/// Why a text names no service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no service name: write <project>/<name> or <name>, each of 1 to {LABEL_BYTES_MAX} characters out of a-z, 0-9 and '-'"
)]
pub struct InvalidName(String);

/// A service of the mesh: `<project>/<name>`. Cheap to clone, because it is the key of everything.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceName(Arc<str>);

impl ServiceName {
    pub fn new(project: &str, name: &str) -> Result<Self, InvalidName> {
        if is_label(project) && is_label(name) {
            return Ok(Self(format!("{project}/{name}").into()));
        }
        Err(InvalidName(format!("{project}/{name}")))
    }

    pub fn project(&self) -> &str {
        self.parts().0
    }

    pub fn name(&self) -> &str {
        self.parts().1
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same text, shared instead of copied.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').expect("the constructor puts the slash there")
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for ServiceName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (project, name) = text.split_once('/').unwrap_or((PROJECT_DEFAULT, text));
        Self::new(project, name).map_err(|_| InvalidName(text.to_owned()))
    }
}

/// What the certificates of a proxy call it: `<service>[.<project>[.<instance>]]`. One service has many such
/// names, and a certificate has one of them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProxyName(Arc<str>);

impl ProxyName {
    /// What all proxies of a service are called that have no name of their own.
    pub fn of(service: &ServiceName) -> Self {
        Self(format!("{}.{}", service.name(), service.project()).into())
    }

    /// The service that it fronts.
    pub fn service(&self) -> ServiceName {
        Self::read(&self.0).expect("the constructors read it before")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn read(text: &str) -> Result<ServiceName, InvalidName> {
        let mut parts = text.splitn(3, '.');
        let service = parts.next().unwrap_or_default();
        let project = parts.next().unwrap_or(PROJECT_DEFAULT);
        let service = ServiceName::new(project, service)?;
        match parts.next() {
            Some("") => Err(InvalidName(text.to_owned())),
            Some(_) | None => Ok(service),
        }
    }
}

impl fmt::Display for ProxyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProxyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl FromStr for ProxyName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::read(text)?;
        Ok(Self(text.into()))
    }
}

/// What a port of a service is called (`http`, or the number as declared). The topology compares
/// such names; it never learns where anything listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortName(pub String);

impl From<&str> for PortName {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where traffic goes: a service, and one of its ports; `None` is its first. Written as
/// `<project>/<name>` and `<project>/<name>:<port>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    pub service: ServiceName,
    pub port: Option<PortName>,
}

impl Destination {
    pub fn first(service: &ServiceName) -> Self {
        Self { service: service.clone(), port: None }
    }

    /// Reads `<name>[:<port>]` as a name of `project`, and `<project>/<name>[:<port>]` as it stands.
    pub fn within(project: &str, text: &str) -> Result<Self, InvalidName> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) if is_label(port) => (name, Some(PortName::from(port))),
            Some(_) => return Err(InvalidName(text.to_owned())),
            None => (text, None),
        };
        let service = match name.split_once('/') {
            Some((project, name)) => ServiceName::new(project, name),
            None => ServiceName::new(project, name),
        };
        Ok(Self { service: service?, port })
    }

    /// As a text that can be shared; that of a first port is the service's own.
    pub fn shared(&self) -> Arc<str> {
        match &self.port {
            None => self.service.shared(),
            Some(_) => self.to_string().into(),
        }
    }

    /// The same without the project.
    pub fn short(&self) -> String {
        let name = self.service.name();
        self.port.as_ref().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.port {
            None => fmt::Display::fmt(&self.service, f),
            Some(port) => write!(f, "{}:{port}", self.service),
        }
    }
}

pub(crate) fn is_label(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LABEL_BYTES_MAX).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<(&str, &str)>) {
        let parsed: Result<ServiceName, _> = text.parse();
        assert_eq!(parsed.as_ref().ok().map(|name| (name.project(), name.name())), expect);
        if let Ok(name) = parsed {
            assert_eq!(name.to_string().parse::<ServiceName>().unwrap(), name);
        }
    }

    #[test]
    fn names() {
        check("books", Some(("default", "books")));
        check("shop/books-v2", Some(("shop", "books-v2")));
        check("", None);
        check("/", None);
        check("shop/", None);
        check("/books", None);
        check("a/b/c", None);
        check("Books", None);
        check("books.shop", None);
        check("-a", None);
        check("a-", None);
        check(&"a".repeat(63), Some(("default", "a".repeat(63).leak())));
        check(&"a".repeat(64), None);
    }

    #[track_caller]
    fn check_proxy(text: &str, expect: Option<&str>) {
        let read = text.parse::<ProxyName>().ok();
        assert_eq!(read.as_ref().map(|read| read.service().to_string()).as_deref(), expect);
        assert_eq!(read.as_ref().map(ProxyName::as_str), expect.map(|_| text));
    }

    /// proves: MSH-02
    #[test]
    fn proxies() {
        check_proxy("books", Some("default/books"));
        check_proxy("books.shop", Some("shop/books"));
        check_proxy("books.shop.i-1", Some("shop/books"));
        check_proxy("books.shop.i-1.rack.7", Some("shop/books"));
        for bad in ["", "Books", "books.", "books.shop.", ".shop"] {
            check_proxy(bad, None);
        }
        assert_eq!(ProxyName::of(&"books".parse().unwrap()).as_str(), "books.default");
    }

    #[track_caller]
    fn check_destination(text: &str, expect: Option<&str>) {
        let read = Destination::within("shop", text).ok();
        assert_eq!(read.as_ref().map(ToString::to_string).as_deref(), expect);
        if let Some(read) = read {
            assert_eq!(*read.shared(), read.to_string());
            assert_eq!(Destination::within(read.service.project(), &read.short()), Ok(read));
        }
    }

    #[test]
    fn destinations() {
        check_destination("books", Some("shop/books"));
        check_destination("books:81", Some("shop/books:81"));
        check_destination("office/books:http", Some("office/books:http"));
        check_destination("books:", None);
        check_destination("books:8:1", None);
        check_destination(":81", None);
        check_destination("a/b/c:81", None);
    }
}
