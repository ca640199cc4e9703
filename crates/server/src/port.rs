//! Opening a port for many.
use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted. A fleet that lost its server comes back all at once, and whom
/// the system turns away tries again only a second later. The system may allow fewer (`somaxconn`).
const WAITING_MAX: u32 = 4096;

/// Listens where nobody does, also right after a server that listened there ended.
pub fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_MAX)
}

#[cfg(test)]
mod tests {
    use super::open;
    use tokio::net::TcpStream;

    /// More than the standard library's queue holds. Whom it does not hold would wait a second and more
    /// for another try, and without an accept for ever.
    const MANY: usize = 400;

    #[tokio::test]
    async fn many_connect_before_one_is_accepted() {
        let listener = open(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut connected = Vec::new();
        for _ in 0..MANY {
            connected.push(TcpStream::connect(address).await.unwrap());
        }
        let (_, first) = listener.accept().await.unwrap();
        assert_eq!(first, connected[0].local_addr().unwrap());
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_not_shared() {
        let listener = open(([127, 0, 0, 1], 0).into()).unwrap();
        let again = open(listener.local_addr().unwrap());
        assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    }
}
