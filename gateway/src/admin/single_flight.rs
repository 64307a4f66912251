//! Renders slow documents: one at a time, on a separate thread, and once for all clients that wait
//! for the same document.

use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Mutex;

use super::pages::{Document, Pages};

/// Builds one document at a time and shares it among concurrent clients.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    last: Arc<Mutex<Option<CachedPage>>>,
}

/// The last document built, kept while a client still receives it.
#[derive(Debug)]
struct CachedPage {
    page: String,
    began: Instant,
    document: Weak<Document>,
}

/// The body of a shared document.
struct Shared(Arc<Document>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.body
    }
}

impl SingleFlight {
    /// Returns a document that was rendered after the call.
    pub(super) async fn print(&self, site: Arc<impl Pages>, page: &str) -> Document {
        let asked = Instant::now();
        let mut last = self.last.clone().lock_owned().await;
        let fresh = last.as_ref().filter(|print| print.page == page && print.began >= asked);
        if let Some(document) = fresh.and_then(|print| print.document.upgrade()) {
            return shared(document);
        }
        // The thread holds the lock: even if the client disconnects, the next document is not
        // started before this one is finished.
        let name = page.to_owned();
        let made = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let document = Arc::new(site.make(&name));
            *last = Some(CachedPage { page: name, began, document: Arc::downgrade(&document) });
            document
        });
        match made.await {
            Ok(document) => shared(document),
            Err(error) => {
                tracing::error!(%error, page, "a document could not be made");
                Document::text(StatusCode::INTERNAL_SERVER_ERROR, "it could not be made; see the log\n")
            }
        }
    }
}

fn shared(document: Arc<Document>) -> Document {
    let Document { status, content_type, fields, .. } = *document;
    Document { status, content_type, fields, body: Bytes::from_owner(Shared(document)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use http::Request;
    use hyper::body::Incoming;
    use sluice_testing::backend::Gate;

    use super::*;
    use crate::admin::pages::PageSource;

    #[derive(Default)]
    struct Counting {
        now: AtomicUsize,
        made: AtomicUsize,
        /// A document is made once it is open.
        gate: Option<Gate>,
    }

    impl Pages for Counting {
        fn refuse(&self, _: &Request<Incoming>) -> Option<Document> {
            None
        }

        fn find(&self, _: &http::Uri, _: &http::HeaderMap) -> PageSource {
            PageSource::Page("/".into())
        }

        fn make(&self, page: &str) -> Document {
            assert_eq!(self.now.fetch_add(1, SeqCst), 0, "one at a time");
            if let Some(gate) = &self.gate {
                gate.wait();
            }
            std::thread::yield_now();
            assert_ne!(page, "/panic");
            self.now.fetch_sub(1, SeqCst);
            Document::text(StatusCode::OK, self.made.fetch_add(1, SeqCst).to_string())
        }
    }

    #[tokio::test]
    async fn waiting_clients_share_a_document_and_later_ones_get_a_new_one() {
        let gate = Gate::default();
        let counting = Counting { gate: Some(gate.clone()), ..Counting::default() };
        let (single_flight, site) = (SingleFlight::default(), Arc::new(counting));
        let crowd = (0..50).map(|_| single_flight.print(site.clone(), "/metrics"));
        // The first document is made once all of them wait.
        let (crowd, ()) = tokio::join!(futures::future::join_all(crowd), async { gate.open() });
        assert!(site.made.load(SeqCst) <= 2, "{} for 50", site.made.load(SeqCst));
        let before = site.made.load(SeqCst);
        let other = single_flight.print(site.clone(), "/metrics").await;
        assert_eq!(other.body, before.to_string(), "not an old one");
        assert_eq!(single_flight.print(site.clone(), "/other").await.body, (before + 1).to_string());
        drop(crowd);
    }

    #[tokio::test]
    async fn a_document_that_cannot_be_made_stops_no_other() {
        let (single_flight, site) = (SingleFlight::default(), Arc::new(Counting::default()));
        let failed = single_flight.print(site.clone(), "/panic").await;
        assert_eq!(failed.status, StatusCode::INTERNAL_SERVER_ERROR);
        site.now.store(0, SeqCst);
        assert_eq!(single_flight.print(site.clone(), "/metrics").await.status, StatusCode::OK);
    }
}
