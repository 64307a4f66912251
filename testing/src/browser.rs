//! A real browser: headless Chromium, controlled through chromedriver by the few commands of
//! WebDriver (<https://www.w3.org/TR/webdriver2/>) that tests need. The commands are JSON over
//! HTTP/1.1 and are sent with the tests' common [`client`](crate::client).
//!
//! Neither program is part of the build: without chromedriver on the path there is no browser.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::Connection;
use crate::ports;
use crate::wait::{await_some, await_until};

/// The key of an element reference (WebDriver §11).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window and a separate profile. It ends with the test.
#[derive(Debug)]
pub struct Browser {
    driver: Driver,
    session: String,
}

#[derive(Debug)]
struct Driver {
    process: Child,
    address: SocketAddr,
}

impl Browser {
    /// Starts a browser that accepts any certificate and resolves only these hosts (`host:port`),
    /// each to its address. Returns `None` if there is no chromedriver.
    ///
    /// # Panics
    /// There is a chromedriver, but no browser.
    #[track_caller]
    pub fn start(places: &[(String, SocketAddr)]) -> Option<Self> {
        let driver = Driver::start()?;
        let mapped = places.iter().map(|(place, address)| format!("MAP {place} {address}"));
        let rules: Vec<String> = mapped.chain(["MAP * ~NOTFOUND".to_owned()]).collect();
        let options = json!({ "args": [
            "--headless=new",
            // Tests may run as root, and in containers with little shared memory.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-proxy-server",
            // No traffic but that of the test.
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            format!("--host-resolver-rules={}", rules.join(", ")),
        ]});
        let wanted = json!({
            "acceptInsecureCerts": true,
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let made = driver.command("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        let session = made["sessionId"].as_str().expect("a session").to_owned();
        Some(Self { driver, session })
    }

    /// Opens a page and waits until it is completely loaded.
    #[track_caller]
    pub fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// Returns the URL of the window.
    #[track_caller]
    pub fn url(&self) -> String {
        self.command("GET", "/url", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the URL of the window starts with `start`.
    #[track_caller]
    pub fn await_url(&self, start: &str) {
        await_until(start, || self.url().starts_with(start));
    }

    /// Clicks the first element that matches this CSS selector.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        self.command("POST", &format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Types text into the first element that matches this CSS selector, which gets the focus. Keys
    /// without text have code points of their own (WebDriver §17.4.2).
    #[track_caller]
    pub fn type_into(&self, selector: &str, text: &str) {
        let path = format!("/element/{}/value", self.element(selector));
        self.command("POST", &path, &json!({ "text": text }));
    }

    /// Presses a key where the focus is.
    #[track_caller]
    pub fn press(&self, key: char) {
        let actions = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.command("POST", "/actions", &json!({ "actions": [keyboard] }));
    }

    /// Shows pages as on a screen of this size in CSS pixels.
    #[track_caller]
    pub fn resize(&self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Shows pages as with this preference of the user: `light` or `dark`.
    #[track_caller]
    pub fn prefer_color_scheme(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", &features);
    }

    /// Returns a picture of the window in base64 (PNG).
    #[track_caller]
    pub fn screenshot(&self) -> String {
        self.command("GET", "/screenshot", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Returns the messages of the console since the last call, such as violations of a content
    /// security policy.
    #[track_caller]
    pub fn messages(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "browser" }));
        let messages = log.as_array().into_iter().flatten();
        messages.filter_map(|message| message["message"].as_str().map(str::to_owned)).collect()
    }

    /// Evaluates a JavaScript expression in the page; awaits the result of a promise.
    #[track_caller]
    pub fn evaluate(&self, expression: &str) -> Value {
        let script = format!("return ({expression})");
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Returns the cookie that the page's requests carry, with its attributes; null if there is
    /// none.
    #[track_caller]
    pub fn cookie(&self, name: &str) -> Value {
        let all = self.command("GET", "/cookie", &Value::Null);
        let named = |cookie: &&Value| cookie["name"] == name;
        all.as_array().and_then(|all| all.iter().find(named)).cloned().unwrap_or_default()
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let query = json!({ "using": "css selector", "value": selector });
        let element = self.command("POST", "/element", &query);
        element[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// Sends a command of Chromium's own protocol.
    #[track_caller]
    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.driver.command(method, &format!("/session/{}{path}", self.session), body)
    }
}

impl Driver {
    fn start() -> Option<Self> {
        let [address] = ports::addresses();
        let mut program = Command::new("chromedriver");
        program.arg(format!("--port={}", address.port())).stdin(Stdio::null());
        let process = match program.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(process) => process,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => panic!("chromedriver: {error}"),
        };
        let driver = Self { process, address };
        await_some("chromedriver", || {
            let mut connection = Connection::try_plain(address).ok()?;
            let answer = connection.try_request("GET", &address.to_string(), "/status", &[], "").ok()??;
            (answer.json()["value"]["ready"] == true).then_some(())
        });
        Some(driver)
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let fields = [("Content-Type", "application/json")];
        let host = self.address.to_string();
        let answer = Connection::plain(self.address).request(method, &host, path, &fields, &body);
        assert_eq!(answer.status, 200, "{method} {path} {body}: {}", answer.text());
        answer.json()["value"].take()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromedriver would leave the browser running. It may have ended already; errors are
        // ignored, so that a failing test reports its own failure.
        let host = self.driver.address.to_string();
        let path = format!("/session/{}", self.session);
        if let Ok(mut connection) = Connection::try_plain(self.driver.address) {
            let _ = connection.try_request("DELETE", &host, &path, &[], "");
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
