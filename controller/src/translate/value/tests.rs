use std::time::Duration;

use proptest::prelude::*;
use sluice_config::NextUpstream;

use super::*;

fn read<T: 'static>(value: &Type<T>, text: &str) -> Result<T, Wrong> {
    value.parse(text, &Author::OPERATOR)
}

#[test]
fn times_are_nginx_times() {
    let time = |text| read(&time(), text);
    assert_eq!(time("240s").unwrap(), Duration::from_secs(240));
    assert_eq!(time("1h30m").unwrap(), Duration::from_secs(5400));
    assert_eq!(time("1m 500ms").unwrap(), Duration::from_millis(60_500));
    assert_eq!(time("7").unwrap(), Duration::from_secs(7));
    for (text, days) in [("2d", 2), ("1w", 7), ("1M", 30), ("1y", 365), ("1y1M1w1d", 403)] {
        assert_eq!(time(text).unwrap(), Duration::from_secs(days * 86_400), "{text}");
    }
    for bad in ["", "s", "5x", "-1", "1.5s", "99999999999999h", "596524h", "69y", "1Y", "1W"] {
        assert!(time(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn sizes_booleans_and_lists() {
    let size = |text| read(&size(), text);
    assert_eq!(size("8k"), Ok(8192));
    assert_eq!(size("1G"), Ok(1 << 30));
    assert!(size("k").is_err() && size("1kb").is_err() && size("-1").is_err() && size("").is_err());
    assert!(truth("T").unwrap() && !truth("False").unwrap());
    assert!(truth("yes").is_err());
    assert_eq!(items(" a, ,b,").collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(read(&addresses(), "127.0.0.1, [::1]").unwrap().len(), 2);
    assert!(read(&addresses(), "localhost").is_err());
    assert!(read(&list(), "a\nb").is_err() && read(&paths(), "/a,\n/b").is_err());
}

#[test]
fn a_size_in_a_unit_that_nginx_does_not_have_was_read() {
    for text in ["100b", "8192B"] {
        let wrong = Err(Wrong::Invalid("must be bytes with an optional k, m or g, at most 8191g".into()));
        assert_eq!(read(&size(), text), wrong, "{text}");
        assert!(read(&buffer(), text).is_err() && read(&buffers(), &format!("4 {text}")).is_err(), "{text}");
    }
}

#[test]
fn ranges_are_kept_and_named() {
    fn holds<T: 'static>(value: Type<T>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(read(&value, text).is_ok(), "{text:?} is {}", value.words());
        }
        for text in bad {
            let wrong = read(&value, text).err();
            assert_eq!(wrong, Some(Wrong::Invalid(format!("must be {}", value.words()))), "{text:?}");
        }
    }
    holds(within(1, 9), &["1", "9"], &["0", "10", "-1", "1.0", ""]);
    holds(count(), &["0", "2147483647"], &["-1", "2147483648", "9223372036854775807"]);
    holds(positive(), &["1"], &["0", "4294967295", "99999999999999999999"]);
    holds(int(), &["-1", "-2147483648"], &["-2147483649", "2147483648"]);
    holds(seconds(), &["1", "2147483647"], &["0", "2147483648", "1s"]);
    holds(seconds_or_zero(), &["0", "2147483647"], &["-1", "2147483648", "1s"]);
    holds(ratio(), &["0", "0.5", "1"], &["1.1", "-0.1", "NaN", "inf"]);
    holds(percentage(), &["0%", "0.5%", "100 %"], &["1", "101%", "-1%", "NaN%", "1e1%", "%", ""]);
    holds(size(), &["0", "8191g"], &["8192g", "18446744073709551615"]);
    holds(buffers(), &["4 8k", "1 16m"], &["0 8k", "4 0", "2 16m", "18446744073709551615 8k", "4 8k 1"]);
    assert_eq!(within(1, 9).words(), "an integer from 1 to 9");
}

#[test]
fn next_upstream_off_wins() {
    let read = |text| read(&next_upstream(), text);
    assert_eq!(read("error timeout"), Ok(NextUpstream::DEFAULT));
    assert_eq!(read("error off"), Ok(NextUpstream::default()));
    assert_eq!(read("http_599"), Err("has \"http_599\", which is not a condition".into()));
}

#[test]
fn a_word_is_what_it_means_in_any_case_and_may_not_be_served() {
    let value = partly(&[("HTTP", Some(1)), ("FCGI", None)]);
    assert_eq!(read(&value, "http"), Ok(1));
    assert_eq!(read(&value, "fcgi"), Err(Wrong::NotServed));
    assert_eq!(read(&value, "gopher"), Err("must be one of HTTP, FCGI".into()));
    assert_eq!(read(&words(&["a", "b"]), " b  a"), Ok(vec!["b", "a"]));
    assert!(read(&words(&["a", "b"]), "a c").is_err());
}

#[test]
fn names_of_objects_are_those_that_their_author_may_name() {
    let author = Author { namespace: "shop", crosses: false, ..Author::OPERATOR };
    let free = Author { crosses: true, ..author };
    let name = |text, author| secret().parse(text, author).map(|name| name.to_string());
    assert_eq!(name("users", &author), Ok("shop/users".to_owned()));
    assert_eq!(name("shop/users", &author), Ok("shop/users".to_owned()));
    assert_eq!(name("other/users", &free), Ok("other/users".to_owned()));
    assert!(matches!(name("other/users", &author), Err(Wrong::Forbidden(_))));
    for bad in ["", "/", "a/", "/a", "a/b/c", "Users", "a b"] {
        assert!(matches!(name(bad, &free), Err(Wrong::Invalid(_))), "{bad:?}");
    }
    assert_eq!(secret().refers(), Some(Kind::Secret));
    assert_eq!(read(&service(), "web"), Ok("web".into()));
    for bad in ["", "1web", "web-", "a.b", "a/b", &"a".repeat(64)] {
        assert!(read(&service(), bad).is_err(), "{bad:?}");
    }
}

#[test]
fn characters_are_those_of_ingress_nginx_only_where_they_are_validated() {
    let validated = Author::OPERATOR;
    let free = Author { is_validated: false, ..validated };
    assert!(capture_path().parse("/a?b=$1", &validated).is_err());
    assert!(capture_path().parse("/a?b=$1", &free).is_ok());
    assert!(capture_path().parse("/a/$1", &validated).is_ok());
}

proptest! {
    #[test]
    fn no_time_is_one_that_cannot_be_added_to_a_moment(text in "[0-9]{1,20}(ms|[smhdwMy])?( ?[0-9]{1,4}[smhdwMy])?") {
        if let Ok(time) = read(&time(), &text) {
            prop_assert!(time <= Duration::from_secs(i32::MAX as u64));
        }
    }
}
