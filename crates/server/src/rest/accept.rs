//! Content negotiation: in which form a client wants its answer.
use super::failure::Failure;
use axum::http::{HeaderMap, StatusCode, header};

/// A form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Json,
    Yaml,
    /// Rows and columns, made by the server, in a version of `meta.k8s.io`.
    Table(MetaVersion),
    /// Only the metadata of objects.
    Metadata(MetaVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// A form of the discovery documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryForm {
    /// Everything in one document, in a version of `apidiscovery.k8s.io`.
    Aggregated(&'static str),
    /// One document for each group and version.
    Plain,
}

/// The form of a resource that is acceptable and that we speak.
pub fn form(headers: &HeaderMap) -> Result<Form, Failure> {
    negotiate(headers, resource_form)
}

/// The same for what is no kind with columns, and no object with metadata to be had alone.
pub fn plain_form(headers: &HeaderMap) -> Result<Form, Failure> {
    let is_plain = |form: &Form| matches!(form, Form::Json | Form::Yaml);
    negotiate(headers, |range| resource_form(range).filter(is_plain))
}

/// The same for a stream of objects, which is not written in YAML: nobody could tell where one ends.
pub fn stream_form(headers: &HeaderMap) -> Result<Form, Failure> {
    let form = negotiate(headers, |range| resource_form(range).filter(|form| *form != Form::Yaml));
    form.map_err(|_| {
        let message = "only the following media types are accepted for a watch: application/json, application/json;stream=watch";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    })
}

pub fn discovery_form(headers: &HeaderMap) -> Result<DiscoveryForm, Failure> {
    negotiate(headers, discovery_media)
}

/// The first range, by preference and then by order, that `understand` knows.
fn negotiate<T>(
    headers: &HeaderMap,
    understand: impl Fn(&MediaRange<'_>) -> Option<T>,
) -> Result<T, Failure> {
    let lines: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let nothing = lines.iter().all(|line| line.trim().is_empty());
    let text = if nothing { "*/*".to_owned() } else { lines.join(",") };
    let mut ranges: Vec<MediaRange<'_>> = text.split(',').filter_map(MediaRange::parse).collect();
    ranges.retain(|range| 0.0 < range.quality);
    // The sort is stable: equal preferences keep their order.
    ranges.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    ranges.iter().find_map(understand).ok_or_else(not_acceptable)
}

/// No form that the client accepts is one that we speak.
pub fn not_acceptable() -> Failure {
    let message = "only the following media types are accepted: application/json, application/yaml";
    Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

fn resource_form(range: &MediaRange<'_>) -> Option<Form> {
    let version = || match range.parameter("v") {
        Some("v1") => Some(MetaVersion::V1),
        Some("v1beta1") => Some(MetaVersion::V1Beta1),
        Some(_) | None => None,
    };
    let meta = range.parameter("g") == Some("meta.k8s.io");
    match (range.media_type, range.parameter("as")) {
        ("application/json" | "application/*" | "*/*", None) => Some(Form::Json),
        ("application/yaml", None) => Some(Form::Yaml),
        ("application/json", Some("Table")) if meta => version().map(Form::Table),
        ("application/json", Some("PartialObjectMetadata" | "PartialObjectMetadataList"))
            if meta =>
        {
            version().map(Form::Metadata)
        }
        _ => None,
    }
}

fn discovery_media(range: &MediaRange<'_>) -> Option<DiscoveryForm> {
    let aggregated = range.parameter("g") == Some("apidiscovery.k8s.io");
    match (range.media_type, range.parameter("as"), range.parameter("v")) {
        ("application/json" | "application/*" | "*/*", None, _) => Some(DiscoveryForm::Plain),
        ("application/json", Some("APIGroupDiscoveryList"), Some("v2")) if aggregated => {
            Some(DiscoveryForm::Aggregated("v2"))
        }
        ("application/json", Some("APIGroupDiscoveryList"), Some("v2beta1")) if aggregated => {
            Some(DiscoveryForm::Aggregated("v2beta1"))
        }
        _ => None,
    }
}

/// One entry of an `Accept` header.
struct MediaRange<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

impl<'a> MediaRange<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().filter(|media_type| !media_type.is_empty())?;
        let mut range = Self { media_type, parameters: Vec::new(), quality: 1.0 };
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            match key.trim() {
                "q" => range.quality = value.trim().parse().unwrap_or(0.0),
                key => range.parameters.push((key, value.trim().trim_matches('"'))),
            }
        }
        Some(range)
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use proptest::prelude::*;

    fn mk_headers(accept: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        headers
    }

    #[track_caller]
    fn check(accept: &'static str, expect: Option<Form>) {
        assert_eq!(form(&mk_headers(accept)).ok(), expect, "{accept}");
    }

    #[test]
    fn the_first_form_that_we_speak_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(&HeaderMap::new()).ok(), Some(Form::Json));
        check("", Some(Form::Json));
        check(" ", Some(Form::Json));
        check("*/*", Some(Form::Json));
        check("application/json", Some(Form::Json));
        check("application/json;stream=watch", Some(Form::Json));
        check(table, Some(Form::Table(MetaVersion::V1)));
        check(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Some(Form::Table(MetaVersion::V1Beta1)),
        );
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some(Form::Metadata(MetaVersion::V1)),
        );
        check("application/vnd.kubernetes.protobuf,application/json", Some(Form::Json));
        check("application/json;q=0.5, application/yaml", Some(Form::Yaml));
        check("application/vnd.kubernetes.protobuf", None);
        check("application/json;q=0", None);
        check("application/json;as=Poem;v=v1;g=meta.k8s.io", None);
        check(";;,=,q", None);
    }

    #[test]
    fn what_has_no_columns_is_no_table() {
        let form = |accept| plain_form(&mk_headers(accept)).ok();
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let either = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json";
        assert_eq!((form(table), form(either)), (None, Some(Form::Json)));
        assert_eq!(form("application/yaml"), Some(Form::Yaml));
    }

    #[test]
    fn a_stream_is_not_in_yaml() {
        let form = |accept| stream_form(&mk_headers(accept)).ok();
        assert_eq!(form("application/yaml"), None);
        assert_eq!(form("application/yaml, application/json;q=0.5"), Some(Form::Json));
        assert_eq!(form(""), Some(Form::Json));
    }

    #[track_caller]
    fn check_discovery(accept: &'static str, expect: DiscoveryForm) {
        assert_eq!(discovery_form(&mk_headers(accept)).ok(), Some(expect), "{accept}");
    }

    #[test]
    fn discovery_answers_in_the_version_that_was_asked_for() {
        let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        let both = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        check_discovery(v2beta1, DiscoveryForm::Aggregated("v2beta1"));
        check_discovery(both, DiscoveryForm::Aggregated("v2"));
        check_discovery("application/json", DiscoveryForm::Plain);
        check_discovery("", DiscoveryForm::Plain);
    }

    proptest! {
        #[test]
        fn any_header_is_answered(accept in "[ -~]{0,64}") {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(&accept).expect("a value"));
            if let Err(failure) = form(&headers) {
                prop_assert_eq!(failure.code.as_u16(), 406);
            }
        }
    }
}
