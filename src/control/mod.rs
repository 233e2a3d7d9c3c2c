//! The composition root: makes endpoints, store and notifiers of the configuration, and runs what was asked for, once
//! (`drift audit`) or on schedule (`drift serve`).

mod budget;
mod build;
mod deliver;
mod init;
mod once;
mod schedule;
mod scrape;
mod serve;
mod validate;

pub use build::{address_of, watched};
pub use deliver::{Delivered, deliver};
pub use init::{Database, Draft, init};
pub use once::{Audit, Refused, Wanted, audit};
pub use serve::{Load, Request, Say, Service, Standing};
pub use validate::validate;
