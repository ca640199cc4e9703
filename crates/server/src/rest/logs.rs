//! What the copies of a workload write, as plain text.
//!
//! ```text
//!   GET .../workloads/NAME/log?container=COPY&follow=true&tailLines=N&limitBytes=N
//!                              &timestamps=true&sinceSeconds=N | &sinceTime=TIME
//!
//!   one copy       its bytes as they are
//!   several        whole lines, each with the name of its copy before it
//!   timestamps     the time of each line before it, behind the name of its copy
//!   [orrery] ...   what the server has to say itself, on lines of their own
//! ```
//! The stream is pulled by the connection: what a slow reader has not read stays with the agent.
mod lines;

use super::Rest;
use super::failure::{Cause, Failure};
use super::not_allowed;
use super::patching::absent_project;
use super::query::{number, truth};
use super::resource::Resource;
use crate::connection::in_turns;
use crate::gate::{Caller, Transport};
use crate::identity::{GOOD_NO_LONGER, LastWords, Lasting, asked_of_part};
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use futures::FutureExt as _;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use jiff::Timestamp;
use lines::{Lines, note};
use orrery_hub::{Error, ObjectName};
use orrery_proto::fleet::v1::{LogsRequest, LogsResponse};
use std::convert::Infallible;

/// How the dialect calls what a query of a log asks for.
const LOG_OPTIONS: &str = "PodLogOptions";
const ONE_LOG: &str = "the earlier runs of a copy are in its one log, before the present one";
const NOT_APART: &str =
    "what a copy writes to its outputs is kept in one log, in the order it came";

/// What is wanted of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Options {
    copy: String,
    follow: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<usize>,
}

impl Options {
    /// Reads the query of a log. What the dialect has and we do not is refused, unless it asks for what is so anyway.
    fn parse(raw: &str) -> Result<Self, Failure> {
        let mut options = Self::default();
        for (key, value) in form_urlencoded::parse(raw.as_bytes()) {
            let key = &*key;
            match key {
                "container" => options.copy = value.into_owned(),
                "follow" => options.follow = truth(key, &value)?,
                "timestamps" => options.timestamps = truth(key, &value)?,
                "sinceSeconds" => options.since_seconds = Some(count(key, &value, 1)?),
                "sinceTime" => options.since_time = Some(time(key, &value)?),
                "tailLines" => options.tail_lines = Some(count(key, &value, 0)?),
                "limitBytes" => {
                    options.limit_bytes = usize::try_from(count(key, &value, 1)?).ok();
                }
                "previous" => only_false(key, &value, ONE_LOG)?,
                "stream" if value != "All" => return Err(unsupported(key, NOT_APART)),
                // Clients of the dialect add it as they like.
                "stream" | "pretty" => {}
                "insecureSkipTLSVerifyBackend" => {
                    only_false(
                        key,
                        &value,
                        "agents connect to the server, and prove who they are",
                    )?;
                }
                other => return Err(unknown_parameter(other)),
            }
        }
        if options.since_seconds.is_some() && options.since_time.is_some() {
            let why = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
            return Err(wrong("FieldValueForbidden", "sinceTime", why.to_owned()));
        }
        Ok(options)
    }

    /// What is asked of the copies.
    fn request(&self, name: &ObjectName) -> LogsRequest {
        let since_time = self.since_time.map(|time| prost_types::Timestamp {
            seconds: time.as_second(),
            nanos: time.subsec_nanosecond(),
        });
        LogsRequest {
            project: name.project.clone(),
            name: name.name.clone(),
            follow: self.follow,
            tail_lines: self.tail_lines,
            instance: self.copy.clone(),
            times: self.timestamps,
            since_seconds: self.since_seconds,
            since_time,
            ..LogsRequest::default()
        }
    }
}

#[cfg(feature = "fuzzing")]
pub fn check_query(raw: &str) -> Result<(), Failure> {
    Options::parse(raw).map(drop)
}

/// The dialect has more parameters than these, and a typing error should not go unseen.
pub fn unknown_parameter(key: &str) -> Failure {
    Failure::bad_request(format!("there is no parameter {key:?} here"))
}

fn count(key: &str, value: &str, least: i64) -> Result<i64, Failure> {
    let count: i64 = number(key, value)?;
    if count < least {
        let why = format!("Invalid value: {count}: must be {least} or more");
        return Err(wrong("FieldValueInvalid", key, why));
    }
    Ok(count)
}

fn time(key: &str, value: &str) -> Result<Timestamp, Failure> {
    value.parse().map_err(|_| {
        let example = "2026-11-19T12:00:00Z";
        Failure::bad_request(format!("{key}: {value:?} is no time of RFC 3339, such as {example}"))
    })
}

fn wrong(reason: &'static str, key: &str, why: String) -> Failure {
    Failure::invalid_options(LOG_OPTIONS, Cause::new(reason, key, why))
}

fn only_false(key: &str, value: &str, why: &str) -> Result<(), Failure> {
    if truth(key, value)? { Err(unsupported(key, why)) } else { Ok(()) }
}

fn unsupported(key: &str, why: &str) -> Failure {
    Failure::bad_request(format!("{key} is not supported: {why}"))
}

pub async fn get(
    rest: &Rest,
    resource: &Resource,
    name: &ObjectName,
    request: Request,
) -> Result<Response, Failure> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(not_allowed());
    }
    let guard = rest.guard_of(&request);
    let failed = |error| Failure::of(absent_project(error, resource, name), resource, &name.name);
    guard.check_part("get", &resource.kind, "log", &name.project, &name.name).map_err(failed)?;
    let options = Options::parse(request.uri().query().unwrap_or_default())?;
    let taken = rest.gate.following(&Caller::of(Transport::Rest, &request)).map_err(failed)?;
    let output = rest.fleet.logs_of(options.request(name)).await.map_err(failed)?;
    let output = begun(output, options.follow).await?;
    let asked = asked_of_part("get", &resource.kind, "log", &name.project, &name.name);
    let output = guard.lasting(Lasting::new(asked), output.map(Ok).boxed());
    let stop = rest.stop.clone().cancelled_owned();
    let text = limited(text(output, Lines::new(options.timestamps)), options.limit_bytes)
        .take_until(Box::pin(stop));
    // Counted for as long as somebody reads.
    let text = text.inspect(move |_| _ = &taken).map(Ok::<_, Infallible>);
    Ok(answer(Body::from_stream(text)))
}

fn answer(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, plain);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    // Whatever it is, no browser should take it for a page of this server.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.extensions_mut().insert(LastWords(note("", GOOD_NO_LONGER)));
    response
}

/// Waits for the first piece where it is bound to come; what cannot be had at all is refused with a code.
async fn begun(
    mut output: BoxStream<'static, LogsResponse>,
    follow: bool,
) -> Result<BoxStream<'static, LogsResponse>, Failure> {
    let first = match follow {
        true => output.next().now_or_never(),
        false => Some(output.next().await),
    };
    match first.flatten() {
        Some(piece) if piece.copies <= 1 && !piece.problem.is_empty() => {
            let LogsResponse { instance, problem, .. } = piece;
            let message = format!("the output of {instance:?} cannot be read: {problem}");
            Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message))
        }
        first => Ok(stream::iter(first).chain(output).boxed()),
    }
}

/// The output as text; its last line may have no end.
fn text(
    output: BoxStream<'static, Result<LogsResponse, Error>>,
    lines: Lines,
) -> impl Stream<Item = Bytes> + Send {
    let state = Some((output, lines));
    let text = stream::unfold(state, |state| async move {
        let (mut output, mut lines) = state?;
        match output.next().await {
            Some(Ok(piece)) => Some((lines.write(&piece), Some((output, lines)))),
            Some(Err(error)) => Some((lines.over(&error.to_string()), None)),
            None => Some((lines.finish(), None)),
        }
    });
    in_turns(text.filter(|text| std::future::ready(!text.is_empty())), Bytes::len)
}

/// At most so many bytes of it.
fn limited(
    text: impl Stream<Item = Bytes> + Send,
    limit: Option<usize>,
) -> impl Stream<Item = Bytes> + Send {
    let left = limit.unwrap_or(usize::MAX);
    stream::unfold((Box::pin(text), left), |(mut text, left)| async move {
        if left == 0 {
            return None;
        }
        let mut piece = text.next().await?;
        piece.truncate(left);
        let left = left - piece.len();
        Some((piece, (text, left)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expect: Options) {
        assert_eq!(Options::parse(query), Ok(expect), "{query}");
    }

    #[track_caller]
    fn refuse(query: &str, code: u16, words: &str) {
        let failure = Options::parse(query).expect_err(query);
        assert_eq!(failure.code, code, "{query}");
        assert!(failure.message.contains(words), "{query}: {}", failure.message);
    }

    #[test]
    fn what_a_query_asks_for_is_done() {
        check("", Options::default());
        check(
            "container=web-1&follow=true&tailLines=5&limitBytes=9&timestamps=true&sinceSeconds=60",
            Options {
                copy: "web-1".into(),
                follow: true,
                timestamps: true,
                since_seconds: Some(60),
                since_time: None,
                tail_lines: Some(5),
                limit_bytes: Some(9),
            },
        );
        let since_time = Some(Timestamp::new(1, 500_000_000).unwrap());
        for time in ["1970-01-01T00:00:01.5Z", "1970-01-01T02:00:01.5%2B02:00"] {
            check(&format!("sinceTime={time}"), Options { since_time, ..Options::default() });
        }
        check("timestamps=false&previous=false&stream=All&pretty=true", Options::default());
    }

    #[test]
    fn what_a_query_cannot_mean_is_refused() {
        refuse("tailLines=-1", 422, "tailLines: Invalid value: -1: must be 0 or more");
        refuse("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be 1 or more");
        refuse("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be 1 or more");
        refuse("sinceSeconds=1&sinceTime=1970-01-01T00:00:00Z", 422, "sinceTime: Forbidden");
        refuse("limitBytes=many", 400, "limitBytes: \"many\" is no number");
        refuse("sinceSeconds=1.5", 400, "sinceSeconds: \"1.5\" is no number");
        refuse("sinceTime=yesterday", 400, "sinceTime: \"yesterday\" is no time of RFC 3339");
        refuse("sinceTime=", 400, "sinceTime");
        refuse("timestamps=yes", 400, "timestamps");
        refuse("follow=yes", 400, "follow");
        refuse("previous=true", 400, "one log");
        refuse("stream=Stderr", 400, "one log");
        refuse("tail=5", 400, "no parameter \"tail\"");
    }

    #[tokio::test]
    async fn no_more_bytes_come_than_are_wanted() {
        for (limit, expect) in
            [(None, "onetwo"), (Some(4), "onet"), (Some(0), ""), (Some(3), "one")]
        {
            let text = stream::iter(["one", "two"].map(Bytes::from));
            let all: Vec<Bytes> = limited(text, limit).collect().await;
            assert_eq!(all.concat(), expect.as_bytes(), "{limit:?}");
        }
    }
}
