//! The files of objects, over the server's REST API and with the same connection as everything else.
//!
//! Content goes through in pieces: a file is never held in memory as a whole.
use crate::endpoint::Endpoint;
use crate::error::{ApiError, Error};
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::ServiceExt as _;

/// Answers that are no files: a list of the files of an object, or what went wrong.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Letters that mean themselves within a part of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An object that has files.
#[derive(Clone, Debug)]
pub struct Owner {
    pub group: String,
    pub version: String,
    pub plural: String,
    /// Empty for what belongs to no project.
    pub project: String,
    pub name: String,
}

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct File {
    pub path: String,
    pub size_bytes: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub digest: String,
}

#[derive(Deserialize)]
struct FileList {
    items: Vec<File>,
}

/// The part of a `Status` that says what went wrong.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    reason: String,
    message: String,
}

/// The way to the files of a server. Clones share its connection.
#[derive(Clone)]
pub struct Files {
    endpoint: Endpoint,
    channel: Channel,
}

/// A file on its way here.
pub struct Download {
    server: String,
    /// As many bytes as there will be, where the server says so.
    pub size_bytes: Option<u64>,
    /// SHA-256 of what will come, in hexadecimal.
    pub digest: String,
    body: Body,
}

impl Files {
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, Error> {
        Ok(Self { channel: endpoint.connect().await?, endpoint: endpoint.clone() })
    }

    /// Which files an object has, in the order of their paths.
    pub async fn list(&self, owner: &Owner) -> Result<Vec<File>, Error> {
        let body = self.ask(Method::GET, owner.path(None), None, Body::empty()).await?.into_body();
        Ok(self.read::<FileList>(body).await?.items)
    }

    pub async fn get(&self, owner: &Owner, path: &str) -> Result<Download, Error> {
        let answer = self.ask(Method::GET, owner.path(Some(path)), None, Body::empty()).await?;
        let text = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let size_bytes = text(header::CONTENT_LENGTH).and_then(|text| text.parse().ok());
        let digest = text(header::ETAG).unwrap_or_default().trim_matches('"').to_owned();
        let server = self.endpoint.server();
        Ok(Download { server, size_bytes, digest, body: answer.into_body() })
    }

    /// Writes a file, whole: after an error it is as it was. With a size, one that is too large is
    /// refused before anything is sent.
    pub async fn put<S>(
        &self,
        owner: &Owner,
        path: &str,
        size_bytes: Option<u64>,
        content: S,
    ) -> Result<File, Error>
    where
        S: Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static,
    {
        let content = Body::new(StreamBody::new(content.map(|piece| piece.map(Frame::data))));
        let answer = self.ask(Method::PUT, owner.path(Some(path)), size_bytes, content).await?;
        self.read(answer.into_body()).await
    }

    pub async fn delete(&self, owner: &Owner, path: &str) -> Result<(), Error> {
        self.ask(Method::DELETE, owner.path(Some(path)), None, Body::empty()).await.map(|_| ())
    }

    async fn ask(
        &self,
        method: Method,
        path: String,
        length: Option<u64>,
        body: Body,
    ) -> Result<http::Response<Body>, Error> {
        let mut request = http::Request::builder().method(method).uri(path);
        if let Some(length) = length {
            request = request.header(header::CONTENT_LENGTH, length);
        }
        if let Some(value) = self.endpoint.authorization() {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(body)
            .map_err(|_| Error::Unexpected)?;
        let sent = self.channel.clone().oneshot(request).await;
        let answer = sent.map_err(|error| self.lost(&error))?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            status => Err(self.refusal(status, answer.into_body()).await),
        }
    }

    async fn read<T: DeserializeOwned>(&self, body: Body) -> Result<T, Error> {
        let text = collect(body).await.map_err(|error| self.lost(&error))?;
        serde_json::from_slice(&text.ok_or(Error::Unexpected)?).map_err(|_| Error::Unexpected)
    }

    async fn refusal(&self, status: StatusCode, body: Body) -> Error {
        let text = match collect(body).await {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => return self.lost(&error),
        };
        let Status { reason, message } = serde_json::from_slice(&text).unwrap_or_default();
        let message = if message.is_empty() { status.to_string() } else { message };
        Error::Api(ApiError { reason, message, violations: Vec::new() })
    }

    fn lost(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let (server, cause) = (self.endpoint.server(), Error::root_cause(error));
        Error::ConnectionLost { server, cause }
    }
}

/// A whole body; nothing when it is larger than any answer.
async fn collect(mut body: Body) -> Result<Option<Vec<u8>>, tonic::Status> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame?.into_data() else { continue };
        if ANSWER_BYTES_MAX < all.len() + piece.len() {
            return Ok(None);
        }
        all.extend_from_slice(&piece);
    }
    Ok(Some(all))
}

impl Download {
    /// The next piece; nothing after the last.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| {
                let (server, cause) = (self.server.clone(), Error::root_cause(&error));
                Error::ConnectionLost { server, cause }
            })?;
            if let Ok(piece) = frame.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

impl Owner {
    /// Where its files are, or one of them.
    fn path(&self, file: Option<&str>) -> String {
        let segment = |text: &str| utf8_percent_encode(text, SEGMENT).to_string();
        let Self { group, version, plural, project, name } = self;
        let place = match project.as_str() {
            "" => String::new(),
            project => format!("namespaces/{}/", segment(project)),
        };
        let (plural, name) = (segment(plural), segment(name));
        let mut path = format!(
            "/apis/{}/{}/{place}{plural}/{name}/artifacts",
            segment(group),
            segment(version)
        );
        // A slash at an end belongs to the path of the file; the server says what is wrong with it.
        for part in file.into_iter().flat_map(|file| file.split('/')) {
            path += "/";
            path += if part.is_empty() { "%2F" } else { "" };
            path += &segment(part);
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_lead_elsewhere() {
        let owner = Owner {
            group: "apps.orrery.dev".into(),
            version: "v1".into(),
            plural: "workloads".into(),
            project: "p".into(),
            name: "we/b?".into(),
        };
        let base = "/apis/apps.orrery.dev/v1/namespaces/p/workloads/we%2Fb%3F/artifacts";
        assert_eq!(owner.path(None), base);
        assert_eq!(owner.path(Some("etc/a b#.conf")), format!("{base}/etc/a%20b%23.conf"));
        assert_eq!(owner.path(Some("/etc")), format!("{base}/%2F/etc"));
        let shared = Owner { project: String::new(), name: "n".into(), ..owner };
        assert_eq!(shared.path(Some("x")), "/apis/apps.orrery.dev/v1/workloads/n/artifacts/x");
    }
}
