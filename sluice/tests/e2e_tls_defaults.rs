//! What the default settings of TLS offer to a client that supports everything.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::harness::manifest;
use crate::harness::{Backend, Folder, Gateway, Ingress, TestCertificate};

/// Hosts with certificates of each type of key.
const ECDSA: &str = "ecdsa.example";
const RSA: &str = "rsa.example";

/// Runs `openssl s_client` without input. Returns whether the handshake succeeded, with the output;
/// `None` if this machine has no openssl.
pub(crate) fn openssl(address: SocketAddr, host: &str, options: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address.to_string(), "-servername", host]).args(options);
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        println!("this machine has no openssl: it was NOT tried");
        return None;
    };
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn openssl_is_offered_nothing_that_is_broken() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(manifest::nginx_class() + &manifest::service_with("shop", &[&backend]));
    for (name, host, certificate) in
        [("ecdsa", ECDSA, TestCertificate::new(&[ECDSA])), ("rsa", RSA, TestCertificate::rsa(&[RSA]))]
    {
        let ingress = Ingress::new(name).path(host, "/", "shop").tls(&[host], name);
        folder.write(&format!("{name}.yaml"), certificate.secret(name) + &ingress.text());
    }
    let gateway = Gateway::start(&folder);
    let tried = |host: &str, options: &[&str]| openssl(gateway.https, host, options);
    for version in ["-tls1", "-tls1_1"] {
        let Some((connected, text)) = tried(RSA, &[version, "-cipher", "ALL:@SECLEVEL=0"]) else { return };
        assert!(!connected && text.contains(" alert "), "{version}: {text}");
    }
    let refused = [
        (RSA, "AES128-GCM-SHA256"),
        (RSA, "AES256-SHA"),
        (RSA, "ECDHE-RSA-AES128-SHA"),
        (RSA, "ECDHE-RSA-AES256-SHA384"),
        (RSA, "DHE-RSA-AES256-GCM-SHA384"),
        (RSA, "aNULL:@SECLEVEL=0"),
        (RSA, "eNULL:@SECLEVEL=0"),
        (ECDSA, "ECDHE-ECDSA-AES256-SHA"),
        (ECDSA, "ECDHE-ECDSA-AES128-CCM"),
    ];
    for (host, suite) in refused {
        let (connected, text) = tried(host, &["-tls1_2", "-cipher", suite]).unwrap();
        assert!(!connected && text.contains("alert handshake failure"), "{suite}: {text}");
    }
    for (host, key) in [(ECDSA, "ECDSA"), (RSA, "RSA")] {
        for cipher in ["AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"] {
            let suite = format!("ECDHE-{key}-{cipher}");
            let (connected, text) = tried(host, &["-tls1_2", "-cipher", &suite]).unwrap();
            assert!(connected && text.contains("Compression: NONE"), "{suite}: {text}");
            assert!(text.contains("Secure Renegotiation IS supported"), "{suite}: {text}");
        }
    }
    for suite in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let (connected, text) = tried(ECDSA, &["-tls1_3", "-ciphersuites", suite]).unwrap();
        assert!(connected && text.contains(&format!("Cipher is {suite}")), "{suite}: {text}");
    }
    let (connected, text) = tried(ECDSA, &["-tls1_3", "-ciphersuites", "TLS_AES_128_CCM_SHA256"]).unwrap();
    assert!(!connected && text.contains("alert handshake failure"), "{text}");
    for (group, is_offered) in [("X25519", true), ("P-256", true), ("P-384", true), ("P-521", false)] {
        let (connected, text) = tried(ECDSA, &["-groups", group]).unwrap();
        assert_eq!(connected, is_offered, "{group}: {text}");
    }
}
