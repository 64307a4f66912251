//! Distinguished names in the form of RFC 2253, as OpenSSL writes them (`XN_FLAG_RFC2253`) and
//! nginx passes them on. Endpoints and `auth-tls-match-cn` compare this text, so that every escape
//! counts.

use x509_parser::asn1_rs::{Any, Class, Tag, ToDer};
use x509_parser::x509::X509Name;

/// OpenSSL's short names of attributes; others are written as numbers.
const SHORT_NAMES: [(&str, &str); 28] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.15", "businessCategory"),
    ("2.5.4.16", "postalAddress"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.20", "telephoneNumber"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.45", "x500UniqueIdentifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("2.5.4.97", "organizationIdentifier"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("1.3.6.1.4.1.311.60.2.1.3", "jurisdictionC"),
];

/// Writes a name, its most specific part first.
pub(super) fn rfc2253(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    let sets: Vec<_> = name.iter_rdn().collect();
    for (index, set) in sets.iter().rev().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let attributes: Vec<_> = set.iter().collect();
        for (index, attribute) in attributes.iter().rev().enumerate() {
            if index > 0 {
                text.push('+');
            }
            let oid = attribute.attr_type().to_id_string();
            let short = SHORT_NAMES.iter().find(|(number, _)| *number == oid).map(|(_, name)| *name);
            text.push_str(short.unwrap_or(&oid));
            text.push('=');
            match characters(attribute.attr_value()).filter(|_| short.is_some()) {
                Some(characters) => escape(&characters, &mut text),
                None => dump(attribute.attr_value(), &mut text),
            }
        }
    }
    text
}

/// The characters of a string in UTF-8; `None` for other types.
fn characters(value: &Any<'_>) -> Option<Vec<u8>> {
    if value.class() != Class::Universal {
        return None;
    }
    let utf8 = |units: &mut dyn Iterator<Item = u32>| -> Option<Vec<u8>> {
        units.map(char::from_u32).collect::<Option<String>>().map(String::into_bytes)
    };
    match value.tag() {
        Tag::Utf8String => Some(value.data.to_vec()),
        Tag::NumericString | Tag::PrintableString | Tag::Ia5String | Tag::VisibleString | Tag::T61String => {
            utf8(&mut value.data.iter().map(|byte| u32::from(*byte)))
        }
        Tag::BmpString => {
            let pairs = value.data.chunks(2);
            utf8(&mut pairs.map(|pair| pair.iter().fold(0, |unit, byte| unit << 8 | u32::from(*byte))))
        }
        Tag::UniversalString => {
            let quads = value.data.chunks(4);
            utf8(&mut quads.map(|quad| quad.iter().fold(0, |unit, byte| unit << 8 | u32::from(*byte))))
        }
        _ => None,
    }
}

/// Escapes as RFC 2253 §2.4 and OpenSSL do, which leaves ASCII alone.
fn escape(bytes: &[u8], text: &mut String) {
    for (index, byte) in bytes.iter().enumerate() {
        let is_edge =
            (index == 0 && matches!(byte, b' ' | b'#')) || (index + 1 == bytes.len() && *byte == b' ');
        match byte {
            0..=0x1f | 0x7f.. => text.push_str(&format!("\\{byte:02X}")),
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => text.extend(['\\', char::from(*byte)]),
            _ if is_edge => text.extend(['\\', char::from(*byte)]),
            _ => text.push(char::from(*byte)),
        }
    }
}

/// The value as it is encoded, in hexadecimal digits behind a `#`.
fn dump(value: &Any<'_>, text: &mut String) {
    text.push('#');
    for byte in value.to_der_vec().unwrap_or_default() {
        text.push_str(&format!("{byte:02X}"));
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;

    fn subject(parts: Vec<(DnType, DnValue)>) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind, value);
        }
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
        rfc2253(parsed.subject())
    }

    fn text(value: &str) -> DnValue {
        DnValue::Utf8String(value.to_owned())
    }

    #[test]
    fn the_most_specific_part_comes_first() {
        let parts = vec![
            (DnType::CountryName, DnValue::PrintableString("DE".try_into().unwrap())),
            (DnType::OrganizationName, text("Example Inc")),
            (DnType::CommonName, text("client")),
        ];
        assert_eq!(subject(parts), "CN=client,O=Example Inc,C=DE");
    }

    #[test]
    fn special_characters_are_escaped() {
        for (name, written) in [
            ("a,b+c", "CN=a\\,b\\+c"),
            ("a=b", "CN=a=b"),
            ("\"x\\<y>;", "CN=\\\"x\\\\\\<y\\>\\;"),
            (" # ", "CN=\\ #\\ "),
            ("#1", "CN=\\#1"),
            ("a\r\nb", "CN=a\\0D\\0Ab"),
            ("Jörg", "CN=J\\C3\\B6rg"),
        ] {
            assert_eq!(subject(vec![(DnType::CommonName, text(name))]), written);
        }
    }

    #[test]
    fn an_unknown_attribute_is_written_as_numbers() {
        let kind = DnType::CustomDnType(vec![1, 2, 3, 4]);
        assert_eq!(subject(vec![(kind, text("foo"))]), "1.2.3.4=#0C03666F6F");
    }
}
