//! A substitute for oauth2-proxy: it stores sessions in memory and signs every client in as ann.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{COOKIE, USER};
use crate::harness::wire::Message;
use crate::harness::{Backend, Reply};

/// A substitute for oauth2-proxy.
#[derive(Clone, Default)]
pub(super) struct Sessions {
    known: Arc<Mutex<Known>>,
    /// The https host of the identity provider; without one, clients are signed in immediately.
    provider: Option<&'static str>,
}

#[derive(Default)]
struct Known {
    issued: u32,
    /// Values of the session cookie, and whether the session is due for renewal.
    sessions: BTreeMap<String, bool>,
}

impl Sessions {
    /// Creates a substitute that uses this identity provider.
    pub(super) fn with_provider(provider: &'static str) -> Self {
        Self { provider: Some(provider), ..Self::default() }
    }

    pub(super) fn backend(&self) -> Backend {
        let sessions = self.clone();
        Backend::with("oauth2-proxy", move |request| sessions.answer(request))
    }

    fn answer(&self, request: &Message) -> Reply {
        let target = request.start.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match path {
            "/oauth2/auth" => self.check(request),
            "/oauth2/start" => {
                let state = query.trim_start_matches("rd=");
                let location = match self.provider {
                    None => format!("/oauth2/callback?code=x&state={state}"),
                    Some(host) => format!("https://{host}/authorize?state={state}"),
                };
                redirect(&location, &[&self.cookie("_oauth2_proxy_csrf=token")])
            }
            "/oauth2/callback" if cookie(request, "_oauth2_proxy_csrf").as_deref() != Some("token") => {
                Reply::status(403)
            }
            "/oauth2/callback" => {
                let state = query.split("state=").nth(1).unwrap_or_default();
                let session = self.cookie(&format!("{COOKIE}={}", self.issue()));
                redirect(&decoded(state), &[&session, "_oauth2_proxy_csrf=; Path=/; Max-Age=0"])
            }
            "/oauth2/sign_out" => {
                self.known.lock().unwrap().sessions.remove(&cookie(request, COOKIE).unwrap_or_default());
                redirect("/", &[&format!("{COOKIE}=; Path=/; Max-Age=0")])
            }
            _ => Reply::status(404),
        }
    }

    fn check(&self, request: &Message) -> Reply {
        let value = cookie(request, COOKIE).unwrap_or_default();
        let due = self.known.lock().unwrap().sessions.get(&value).copied();
        let mut fields = vec![(USER.to_owned(), "ann".to_owned())];
        match due {
            None => return Reply::status(401),
            Some(false) => {}
            Some(true) => {
                self.known.lock().unwrap().sessions.remove(&value);
                let session = self.issue();
                // A session that exceeds the size of a cookie is split into two.
                fields.push(("Set-Cookie".to_owned(), self.cookie(&format!("{COOKIE}={session}"))));
                fields.push(("Set-Cookie".to_owned(), self.cookie(&format!("{COOKIE}_1=more"))));
            }
        }
        Reply::Answer(202, fields, String::new())
    }

    /// Adds the attributes that oauth2-proxy gives its cookies.
    fn cookie(&self, pair: &str) -> String {
        let secure = if self.provider.is_some() { "; Secure" } else { "" };
        format!("{pair}; Path=/; HttpOnly; SameSite=Lax{secure}")
    }

    fn issue(&self) -> String {
        let mut known = self.known.lock().unwrap();
        known.issued += 1;
        let session = format!("session-{}", known.issued);
        known.sessions.insert(session.clone(), false);
        session
    }

    /// Makes all sessions due for renewal.
    pub(super) fn age(&self) {
        self.known.lock().unwrap().sessions.values_mut().for_each(|due| *due = true);
    }
}

pub(super) fn redirect(location: &str, cookies: &[&str]) -> Reply {
    let mut fields = vec![("Location".to_owned(), location.to_owned())];
    fields.extend(cookies.iter().map(|cookie| ("Set-Cookie".to_owned(), (*cookie).to_owned())));
    Reply::Answer(302, fields, String::new())
}

fn cookie(request: &Message, name: &str) -> Option<String> {
    let pairs = request.header("cookie")?.split("; ");
    pairs.filter_map(|pair| pair.split_once('=')).find(|(n, _)| *n == name).map(|(_, v)| v.to_owned())
}

/// Decodes a URL component.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).expect("text")
}
