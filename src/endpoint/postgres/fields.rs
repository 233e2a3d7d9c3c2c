//! The binary formats of single values (PostgreSQL's `typsend` functions).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::sql::EPOCH_DAYS;
use crate::value::decimal;
use crate::value::text::Interval;

const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

type Field<T> = Result<T, &'static str>;

/// A big-endian number inside a longer input; `None` where the input ends before it does.
pub(super) fn i16_at(input: &[u8], at: usize) -> Option<i16> {
    Some(i16::from_be_bytes(input.get(at..at + 2)?.try_into().ok()?))
}

/// As [`i16_at`].
pub(super) fn i32_at(input: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(input.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn exactly<const N: usize>(v: &[u8]) -> Field<[u8; N]> {
    v.try_into().map_err(|_| "a value has another length than its type")
}

pub(super) fn boolean(v: &[u8]) -> Field<bool> {
    Ok(exactly::<1>(v)? != [0])
}

/// `int2`, `int4` or `int8`.
pub(super) fn integer(v: &[u8]) -> Field<i64> {
    Ok(match v.len() {
        2 => i64::from(i16::from_be_bytes(exactly(v)?)),
        4 => i64::from(i32::from_be_bytes(exactly(v)?)),
        _ => i64::from_be_bytes(exactly(v)?),
    })
}

/// What is said of a text that is none.
pub(super) const NO_UTF8: &str = "a text is not valid UTF-8 (the database's encoding is SQL_ASCII?)";

/// Days since 1970-01-01, with drift's values for the infinities, which are PostgreSQL's own.
pub(super) fn date(v: &[u8]) -> Field<i32> {
    match i32::from_be_bytes(exactly(v)?) {
        days @ (i32::MAX | i32::MIN) => Ok(days),
        days => days.checked_add(EPOCH_DAYS).filter(|d| *d != i32::MAX).ok_or("a date lies out of range"),
    }
}

/// Microseconds since 1970-01-01, with drift's values for the infinities, which are PostgreSQL's own.
pub(super) fn timestamp(v: &[u8]) -> Field<i64> {
    match i64::from_be_bytes(exactly(v)?) {
        micros @ (i64::MAX | i64::MIN) => Ok(micros),
        micros => micros
            .checked_add(EPOCH_MICROS)
            .filter(|m| *m != i64::MAX)
            .ok_or("a timestamp lies behind the year 294246, which drift cannot hold"),
    }
}

/// The canonical text of an interval; PostgreSQL 17 also knows infinite ones.
pub(super) fn interval(v: &[u8]) -> Field<String> {
    let bytes: [u8; 16] = exactly(v)?;
    let micros = i64::from_be_bytes(exactly(&bytes[..8])?);
    let days = i32::from_be_bytes(exactly(&bytes[8..12])?);
    let months = i32::from_be_bytes(exactly(&bytes[12..])?);
    Ok(match (micros, days, months) {
        (i64::MAX, i32::MAX, i32::MAX) => "infinity".into(),
        (i64::MIN, i32::MIN, i32::MIN) => "-infinity".into(),
        _ => Interval { months, days, micros }.canonical(),
    })
}

/// A string of bits as `0` and `1`.
pub(super) fn bits(v: &[u8]) -> Field<String> {
    let length = i32_at(v, 0).and_then(|n| usize::try_from(n).ok()).ok_or("a bit string has no length")?;
    let bytes = &v[4..];
    if bytes.len() != length.div_ceil(8) {
        return Err("a bit string has another length than it says");
    }
    Ok((0..length).map(|i| if bytes[i / 8] >> (7 - i % 8) & 1 == 1 { '1' } else { '0' }).collect())
}

/// `inet` or `cidr`: family, prefix length, flag, address length, address.
pub(super) fn inet(v: &[u8]) -> Field<String> {
    let [_, prefix, _, _, address @ ..] = v else { return Err("a network address is too short") };
    let (address, full) = match address.len() {
        4 => (IpAddr::V4(Ipv4Addr::from(exactly::<4>(address)?)), 32),
        16 => (IpAddr::V6(Ipv6Addr::from(exactly::<16>(address)?)), 128),
        _ => return Err("a network address has an unknown family"),
    };
    Ok(if *prefix == full { address.to_string() } else { format!("{address}/{prefix}") })
}

/// A `numeric`: groups of four decimal digits, or one of the special values.
pub(super) struct Numeric<'a> {
    sign: u16,
    /// The power of 10,000 of the first group.
    weight: i32,
    groups: &'a [u8],
}

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;

impl<'a> Numeric<'a> {
    pub(super) fn read(v: &'a [u8]) -> Field<Numeric<'a>> {
        let short = "a numeric is too short";
        let count = i16_at(v, 0).and_then(|n| usize::try_from(n).ok()).ok_or(short)?;
        let weight = i32::from(i16_at(v, 2).ok_or(short)?);
        let sign = i16_at(v, 4).ok_or(short)? as u16;
        let groups = v.get(8..).filter(|g| g.len() == count * 2).ok_or(short)?;
        if !matches!(sign, 0 | NEGATIVE | NAN | INFINITY | MINUS_INFINITY) {
            return Err("a numeric has an unknown sign");
        }
        Ok(Numeric { sign, weight, groups })
    }

    fn groups(&self) -> impl Iterator<Item = u16> + '_ {
        self.groups.chunks_exact(2).map(|g| u16::from_be_bytes([g[0], g[1]]))
    }

    /// The value at a scale, with drift's reserved values.
    pub(super) fn at_scale(&self, scale: i8) -> Field<i128> {
        match self.sign {
            NAN => return Ok(decimal::NAN),
            INFINITY => return Ok(decimal::INFINITY),
            MINUS_INFINITY => return Ok(decimal::MINUS_INFINITY),
            _ => {}
        }
        let wide = "a numeric does not fit its column's precision";
        let mut value: i128 = 0;
        // The power of ten of a group's last digit, at the scale.
        let mut exponent = self.weight * 4 + i32::from(scale);
        for group in self.groups() {
            let group = i128::from(group);
            if exponent >= 0 {
                let unit = 10i128.checked_pow(exponent as u32).ok_or(wide)?;
                value = group.checked_mul(unit).and_then(|g| value.checked_add(g)).ok_or(wide)?;
            } else {
                let unit = 10i128.checked_pow(exponent.unsigned_abs()).ok_or(wide)?;
                if group % unit != 0 {
                    return Err(wide);
                }
                value += group / unit;
            }
            exponent -= 4;
        }
        if decimal::is_reserved(value) {
            return Err(wide);
        }
        Ok(if self.sign == NEGATIVE { -value } else { value })
    }

    /// The value as text, with an exponent where it saves zeros.
    pub(super) fn text(&self) -> String {
        match self.sign {
            NAN => return "NaN".into(),
            INFINITY => return "Infinity".into(),
            MINUS_INFINITY => return "-Infinity".into(),
            _ => {}
        }
        let mut out = String::with_capacity(self.groups.len() * 2 + 8);
        if self.sign == NEGATIVE {
            out.push('-');
        }
        let start = out.len();
        for group in self.groups() {
            for unit in [1000, 100, 10, 1] {
                out.push(char::from(b'0' + (group / unit % 10) as u8));
            }
        }
        if out.len() == start {
            return "0".into();
        }
        let exponent = (self.weight + 1) * 4 - (out.len() - start) as i32;
        if exponent != 0 {
            out.push_str(&format!("e{exponent}"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::decimal::Number;

    fn numeric(weight: i16, sign: u16, groups: &[u16]) -> Vec<u8> {
        let mut out = (groups.len() as i16).to_be_bytes().to_vec();
        out.extend(weight.to_be_bytes());
        out.extend(sign.to_be_bytes());
        out.extend([0, 2]);
        groups.iter().for_each(|g| out.extend(g.to_be_bytes()));
        out
    }

    fn text(v: &[u8]) -> String {
        let text = Numeric::read(v).unwrap().text();
        Number::parse(&text).unwrap().canonical()
    }

    fn scaled(v: &[u8], scale: i8) -> Field<i128> {
        Numeric::read(v).unwrap().at_scale(scale)
    }

    #[test]
    fn numerics_are_exact_at_a_scale_and_as_text() {
        let pi = numeric(0, 0, &[3, 1415, 9000]);
        assert_eq!((scaled(&pi, 5), text(&pi)), (Ok(314_159), "3.14159".into()));
        assert!(scaled(&pi, 4).is_err());
        let small = numeric(-1, NEGATIVE, &[500]);
        assert_eq!((scaled(&small, 2), text(&small)), (Ok(-5), "-0.05".into()));
        let big = numeric(2, 0, &[12]);
        assert_eq!((scaled(&big, 2), text(&big)), (Ok(120_000_000_000), "1200000000".into()));
        assert_eq!((scaled(&numeric(0, 0, &[]), 2), text(&numeric(0, 0, &[]))), (Ok(0), "0".into()));
        assert_eq!(scaled(&numeric(0, NAN, &[]), 2), Ok(decimal::NAN));
        assert_eq!(scaled(&numeric(0, MINUS_INFINITY, &[]), 2), Ok(decimal::MINUS_INFINITY));
        assert_eq!(Numeric::read(&numeric(0, INFINITY, &[])).unwrap().text(), "Infinity");
        assert!(scaled(&numeric(20, 0, &[1]), 0).is_err());
        assert!(Numeric::read(&[0, 1, 0, 0]).is_err());
    }

    #[test]
    fn days_and_instants_keep_infinity_and_refuse_overflow() {
        assert_eq!(date(&(-10_957i32).to_be_bytes()), Ok(0));
        assert_eq!(date(&i32::MAX.to_be_bytes()), Ok(i32::MAX));
        assert_eq!(timestamp(&0i64.to_be_bytes()), Ok(946_684_800_000_000));
        assert_eq!(timestamp(&i64::MIN.to_be_bytes()), Ok(i64::MIN));
        assert!(timestamp(&9_223_371_331_199_999_999i64.to_be_bytes()).is_err());
    }

    #[test]
    fn bits_addresses_and_intervals_read() {
        assert_eq!(bits(&[0, 0, 0, 10, 0b1010_0000, 0b0100_0000]), Ok("1010000001".into()));
        assert_eq!(bits(&[0, 0, 0, 0]), Ok(String::new()));
        assert!(bits(&[0, 0, 0, 9, 1]).is_err());
        assert_eq!(inet(&[2, 24, 0, 4, 10, 0, 0, 1]), Ok("10.0.0.1/24".into()));
        assert_eq!(inet(&[2, 32, 1, 4, 10, 0, 0, 1]), Ok("10.0.0.1".into()));
        let mut wire = 3_600_000_000i64.to_be_bytes().to_vec();
        wire.extend(2i32.to_be_bytes());
        wire.extend((-1i32).to_be_bytes());
        assert_eq!(interval(&wire), Ok("P-1M2DT1H".into()));
    }
}
