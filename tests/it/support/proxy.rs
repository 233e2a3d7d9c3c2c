//! A proxy between drift and a server that breaks or holds connections at a byte count, so that a test of lost or slow
//! connections needs no luck with time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;

use super::{block_on, runtime};

/// When the proxy cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The one connection that carries the byte, as when its backend is killed; all others work.
    Once,
    /// All open connections, and no new ones are accepted.
    ForGood,
    /// Nothing is cut: what the server sends from there on waits until [`Proxy::let_go`].
    Hold,
}

/// A running proxy; it ends with its guard.
pub struct Proxy {
    port: u16,
    wire: Arc<Wire>,
    accepting: JoinHandle<()>,
}

struct Wire {
    upstream: SocketAddr,
    cut: Cut,
    /// The server's bytes until the cut.
    after: u64,
    passed: AtomicU64,
    happened: AtomicBool,
    /// Connections that came to an end.
    ended: AtomicU64,
    /// Counts cuts; a connection that sees it change closes.
    cuts: watch::Sender<u32>,
    /// Whether held bytes may pass.
    free: watch::Sender<bool>,
}

impl Proxy {
    /// Stands in front of the URL's server and cuts once it has sent `after` bytes.
    pub fn in_front_of(url: &Url, cut: Cut, after: u64) -> Proxy {
        let host = url.host_str().expect("a host").parse().expect("an address");
        let upstream = SocketAddr::new(host, url.port().expect("a port"));
        let wire = Arc::new(Wire {
            upstream,
            cut,
            after,
            passed: AtomicU64::new(0),
            happened: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            cuts: watch::Sender::new(0),
            free: watch::Sender::new(cut != Cut::Hold),
        });
        let listener = block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let accepting = runtime().spawn(accept(listener, Arc::clone(&wire)));
        Proxy { port, wire, accepting }
    }

    /// The URL through the proxy.
    pub fn url(&self, mut url: Url) -> Url {
        url.set_port(Some(self.port)).expect("a port");
        url
    }

    /// Whether the cut came to pass, or the hold began.
    pub fn has_cut(&self) -> bool {
        self.wire.happened.load(Ordering::SeqCst)
    }

    /// How many connections have come to an end.
    pub fn ended(&self) -> u64 {
        self.wire.ended.load(Ordering::SeqCst)
    }

    /// Lets everything pass from now on.
    pub fn let_go(&self) {
        self.wire.free.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.wire.cuts.send_modify(|n| *n += 1);
    }
}

async fn accept(listener: TcpListener, wire: Arc<Wire>) {
    while let Ok((client, _)) = listener.accept().await {
        if wire.cut == Cut::ForGood && wire.happened.load(Ordering::SeqCst) {
            continue;
        }
        let wire = Arc::clone(&wire);
        tokio::spawn(async move {
            carry(client, &wire).await;
            wire.ended.fetch_add(1, Ordering::SeqCst);
        });
    }
}

async fn carry(mut client: TcpStream, wire: &Wire) {
    let (mut cuts, mut free) = (wire.cuts.subscribe(), wire.free.subscribe());
    let Ok(mut server) = TcpStream::connect(wire.upstream).await else { return };
    let (mut from_client, mut from_server) = (vec![0; 8192], vec![0; 8192]);
    loop {
        let forwarded = tokio::select! {
            read = client.read(&mut from_client) => match read {
                Ok(n) if n > 0 => server.write_all(&from_client[..n]).await,
                _ => return,
            },
            read = server.read(&mut from_server) => match read {
                Ok(n) if n > 0 => {
                    let passed = wire.passed.fetch_add(n as u64, Ordering::SeqCst) + n as u64;
                    if passed > wire.after {
                        let first = !wire.happened.swap(true, Ordering::SeqCst);
                        match wire.cut {
                            Cut::Hold => tokio::select! {
                                _ = free.wait_for(|free| *free) => {}
                                _ = cuts.changed() => return,
                            },
                            Cut::Once if first => return,
                            Cut::ForGood if first => {
                                wire.cuts.send_modify(|n| *n += 1);
                                return;
                            }
                            Cut::Once | Cut::ForGood => {}
                        }
                    }
                    client.write_all(&from_server[..n]).await
                }
                _ => return,
            },
            _ = cuts.changed() => return,
        };
        if forwarded.is_err() {
            return;
        }
    }
}
