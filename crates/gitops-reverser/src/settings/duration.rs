//! Lengths of time as Kubernetes users write them.

use std::time::Duration;

/// Reads whole numbers with units, as in `5m`, `90s`, `1h30m` and `300ms`. Nothing if it is not that,
/// or longer than fits.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit_and_rest) = rest.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let letters = unit_and_rest
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let (unit, after) = unit_and_rest.split_at(letters);
        let part = match unit {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// Writes what [`parse`] reads.
pub(super) fn display(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        _ if duration.subsec_millis() != 0 => format!("{}ms", duration.as_millis()),
        0 => "0s".to_owned(),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, milliseconds) in [
            ("5m", 300_000),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("300ms", 300),
            ("1m0s", 60_000),
            ("0s", 0),
        ] {
            assert_eq!(
                parse(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for bad in [
            "",
            "5",
            "m",
            "5 m",
            "-5m",
            "+5m",
            "1.5h",
            "5min",
            "5d",
            "5µs",
            "٣s",
            "99999999999999999999s",
            "18446744073709551615h",
            "18446744073709551615s1s",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_shown_can_be_written() {
        for milliseconds in [0, 1, 300, 1000, 60_000, 90_000, 3_600_000, 86_400_000] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(parse(&display(duration)), Some(duration));
        }
    }
}
