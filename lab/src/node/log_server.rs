//! Logs of containers: `GET /containerLogs/NAMESPACE/POD/CONTAINER`.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Response, StatusCode, Uri};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use jiff::{SignedDuration, Timestamp};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::NodeContext;
use super::log_files::{ContainerRun, find};
use super::response::{Body, body, text};

/// Returns the log of a container.
pub fn answer(node: &NodeContext, namespace: &str, pod: &str, container: &str, uri: &Uri) -> Response<Body> {
    let Some(dir) = node.running_pod_dir(namespace, pod) else {
        return text(StatusCode::NOT_FOUND, format!("no Pod {namespace}/{pod} runs here"));
    };
    let wanted = Wanted::of(uri);
    match find(&dir, container, wanted.previous) {
        None => {
            text(StatusCode::NOT_FOUND, format!("container {container} of {namespace}/{pod} has no such log"))
        }
        Some(run) if wanted.follow => following(run, wanted),
        Some(run) => match fs::read(&run.file) {
            Ok(log) => body(StatusCode::OK, wanted.select(&log)),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
    }
}

/// The parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    follow: bool,
    previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    since: Option<Timestamp>,
}

impl Wanted {
    fn of(uri: &Uri) -> Self {
        let mut wanted = Self::default();
        for pair in uri.query().unwrap_or_default().split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "follow" => wanted.follow = value == "true",
                "previous" => wanted.previous = value == "true",
                "timestamps" => wanted.timestamps = value == "true",
                "tailLines" => wanted.tail = value.parse().ok(),
                "sinceTime" => wanted.since = value.replace("%3A", ":").replace("%2B", "+").parse().ok(),
                "sinceSeconds" => {
                    let seconds = value.parse().map(SignedDuration::from_secs);
                    wanted.since = seconds.ok().and_then(|ago| Timestamp::now().checked_sub(ago).ok());
                }
                _ => {}
            }
        }
        wanted
    }

    /// Returns a stored line as requested. `None` if it is too old.
    fn line<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        let space = stored.iter().position(|byte| *byte == b' ')?;
        if let Some(since) = self.since {
            let time: Timestamp = std::str::from_utf8(&stored[..space]).ok()?.parse().ok()?;
            if time < since {
                return None;
            }
        }
        Some(if self.timestamps { stored } else { &stored[space + 1..] })
    }

    fn select(&self, log: &[u8]) -> Bytes {
        let mut lines: VecDeque<&[u8]> = VecDeque::new();
        for line in log.split_inclusive(|byte| *byte == b'\n').filter_map(|stored| self.line(stored)) {
            lines.push_back(line);
            if self.tail.is_some_and(|tail| lines.len() > tail) {
                lines.pop_front();
            }
        }
        lines.into_iter().flatten().copied().collect()
    }
}

/// Returns a body that continues until the run has ended.
fn following(run: ContainerRun, wanted: Wanted) -> Response<Body> {
    let Ok(so_far) = fs::read(&run.file) else {
        return text(StatusCode::NOT_FOUND, "the log is gone".into());
    };
    // Only complete lines count as read; a partial one is sent with the first followed line.
    let read = so_far.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let begin = wanted.select(&so_far[..read]);
    let rest = stream::unfold(None, move |state| {
        let (run, wanted) = (run.clone(), wanted.clone());
        async move {
            let mut lines = match state {
                Some(lines) => lines,
                None => open_at(&run.file, read).await?,
            };
            let line = next_line(&mut lines, &run).await?;
            let line = wanted.line(&line).map(Bytes::copy_from_slice).unwrap_or_default();
            Some((line, Some(lines)))
        }
    });
    let frames = stream::iter([begin]).chain(rest).map(|bytes| Ok(Frame::data(bytes)));
    Response::new(StreamBody::new(frames).boxed_unsync())
}

async fn open_at(file: &PathBuf, offset: usize) -> Option<BufReader<tokio::fs::File>> {
    use tokio::io::AsyncSeekExt;
    let mut file = tokio::fs::File::open(file).await.ok()?;
    file.seek(std::io::SeekFrom::Start(offset as u64)).await.ok()?;
    Some(BufReader::new(file))
}

/// Returns the next complete line. `None` if the run has ended and everything was read.
async fn next_line(lines: &mut BufReader<tokio::fs::File>, run: &ContainerRun) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        // Checked before reading, so that everything written before the end is read below.
        let finished = run.is_finished() || !run.file.exists();
        lines.read_until(b'\n', &mut line).await.ok()?;
        if line.last() == Some(&b'\n') {
            return Some(line);
        }
        if finished {
            return None;
        }
        // Polling suffices: files have no notification here, and the reader is a person.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] = b"2026-01-01T00:00:01.000000000Z one\n2026-01-01T00:00:02.000000000Z two\n";

    fn select(query: &str) -> String {
        let uri = format!("/containerLogs/n/p/c?{query}").parse().unwrap();
        String::from_utf8(Wanted::of(&uri).select(LOG).to_vec()).unwrap()
    }

    #[test]
    fn lines_are_chosen_as_kubectl_asks() {
        assert_eq!(select(""), "one\ntwo\n");
        assert_eq!(select("tailLines=1"), "two\n");
        assert_eq!(select("tailLines=0"), "");
        assert_eq!(select("sinceTime=2026-01-01T00%3A00%3A02Z"), "two\n");
        assert_eq!(select("sinceSeconds=1"), "");
        assert_eq!(select("timestamps=true&tailLines=1"), "2026-01-01T00:00:02.000000000Z two\n");
    }
}
