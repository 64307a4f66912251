//! The pages in a real browser: whether the security policy leaves them usable, with a keyboard, in
//! the dark, and on a phone.
//!
//! Chromium is not part of the build; the test needs the packages `chromium` and `chromium-driver`
//! of Debian. With `SCREENSHOTS=FOLDER`, it also takes the pictures of `docs/web-page.md`.

use std::fs;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{HOST, PAGES, start};
use crate::harness::{Backend, Chromium, get, get_tls};

const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';
const PHONE: (u32, u32) = (375, 812);
const SCREEN: (u32, u32) = (1200, 800);

/// Saves a picture of the window if the environment names a folder.
fn picture(browser: &Chromium, name: &str) {
    let Some(folder) = std::env::var_os("SCREENSHOTS").map(PathBuf::from) else { return };
    let picture = STANDARD.decode(browser.screenshot()).unwrap();
    fs::write(folder.join(format!("{name}.png")), picture).unwrap();
}

#[test]
fn the_pages_work_in_a_browser_with_a_keyboard_in_the_dark_and_on_a_phone() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, &[]);
    let place = (format!("localhost:{}", gateway.admin.port()), gateway.admin);
    let Some(browser) = Chromium::start(&[place]) else {
        println!("chromedriver is not on the path: the web page was NOT tried in a browser");
        return;
    };
    for number in 0..200 {
        assert_eq!(get_tls(gateway.https, HOST, if number % 3 == 0 { "/cart" } else { "/" }).status, 200);
        if number % 40 == 0 {
            assert_eq!(get(gateway.http, "private.example", "/").status, 503);
        }
    }
    let root = format!("http://localhost:{}/ui/", gateway.admin.port());
    browser.resize(SCREEN.0, SCREEN.1);
    browser.open(&root);
    assert_eq!(browser.evaluate("getComputedStyle(document.querySelector('.skip')).position"), "absolute");

    // Everything is reached with the keyboard: first the link to the content, then the navigation.
    browser.press(TAB);
    assert_eq!(browser.evaluate("document.activeElement.className"), "skip");
    browser.press(TAB);
    browser.press(TAB);
    assert_eq!(browser.evaluate("document.activeElement.textContent"), "Hosts");
    browser.press(ENTER);
    browser.await_url(&format!("{root}hosts"));
    browser.type_into("#q", &format!("{HOST}{ENTER}"));
    browser.await_url(&format!("{root}hosts?q={HOST}"));
    assert_eq!(browser.evaluate("document.querySelectorAll('tbody tr').length"), 2);
    browser.click("tbody a");
    browser.await_url(&format!("{root}explain?url="));
    assert_eq!(browser.evaluate("document.querySelector('.note strong').className"), "good");
    browser.open(&format!("{root}explain"));
    browser.type_into("#headers", "X-Beta: yes");
    browser.type_into("#url", &format!("https://{HOST}/cart?item=1{ENTER}"));
    browser.await_url(&format!("{root}explain?method=GET&url=https"));
    let main = browser.evaluate("document.querySelector('main').textContent").to_string();
    assert!(main.contains("Goes to default-shop-") && main.contains("x-beta"), "{main}");

    for page in PAGES {
        let url = format!("{root}{page}");
        for (scheme, dark) in [("light", false), ("dark", true)] {
            browser.prefer_color_scheme(scheme);
            browser.open(&url);
            let background = browser.evaluate("getComputedStyle(document.body).backgroundColor").to_string();
            assert_eq!(background == "\"rgb(20, 24, 31)\"", dark, "{page} {scheme}: {background}");
        }
        // Every field of a form has a label, and there is one landmark of each kind.
        let unlabelled = "[...document.querySelectorAll('input, select, textarea')]\
                          .filter(field => field.labels.length !== 1).length";
        assert_eq!(browser.evaluate(unlabelled), 0, "{page}");
        let landmarks =
            "['header', 'main', 'footer', 'h1'].map(name => document.querySelectorAll(name).length)";
        assert_eq!(browser.evaluate(landmarks), serde_json::json!([1, 1, 1, 1]), "{page}");
        // On a phone, only tables are wider than the screen, and they scroll by themselves.
        browser.resize(PHONE.0, PHONE.1);
        browser.open(&url);
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), PHONE.0, "{page}");
        browser.resize(SCREEN.0, SCREEN.1);
    }
    // Chromium asks for an icon by itself.
    let messages: Vec<_> =
        browser.messages().into_iter().filter(|message| !message.contains("favicon.ico")).collect();
    assert_eq!(messages, Vec::<String>::new(), "nothing is refused by the security policy");

    browser.prefer_color_scheme("light");
    browser.open(&root);
    picture(&browser, "web-page-overview");
    browser.prefer_color_scheme("dark");
    browser.open(&format!("{root}explain?method=GET&url=https%3A//{HOST}/cart%3Fitem%3D1&client=192.0.2.7"));
    picture(&browser, "web-page-explain-dark");
    browser.prefer_color_scheme("light");
    browser.resize(PHONE.0, PHONE.1);
    browser.open(&format!("{root}hosts?sort=rate"));
    picture(&browser, "web-page-hosts-phone");
}
