//! What proves a range equal: how many rows it holds, and their hashes combined without regard to order.

/// The digest of some rows. Combining is commutative and associative, so threads and storage may split as they like.
///
/// Equal digests of one recipe imply equal rows (but for the hash's 64 bits); different ones are only a suspicion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeDigest {
    /// The number of rows; xor alone would be blind to a pair of equal rows.
    pub rows: u64,
    /// The wrapping sum of the row hashes.
    pub sum: u64,
    /// The exclusive or of the row hashes.
    pub xor: u64,
}

impl RangeDigest {
    /// Adds one row.
    pub fn add(&mut self, hash: u64) {
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash);
        self.xor ^= hash;
    }

    /// The digest of both parts together.
    pub fn combine(self, other: RangeDigest) -> RangeDigest {
        RangeDigest {
            rows: self.rows + other.rows,
            sum: self.sum.wrapping_add(other.sum),
            xor: self.xor ^ other.xor,
        }
    }
}
