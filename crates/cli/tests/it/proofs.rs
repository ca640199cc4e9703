//! Bad proofs, shown to a real server by the real client: each is refused, the server's log says why, the
//! honest client gets a useful word, and nothing is answered.
use crate::harness::{Home, until};
use crate::tls::{authority, identity, with};
use orrery_pki::{ADMINS, Authority, IssueRequest, Role, TlsFiles, Validity};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);

/// A server, and everything that is needed to forge.
struct Site {
    home: Home,
    authority: Authority,
    url: String,
    admin: Vec<String>,
    _server: crate::harness::Process,
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl Site {
    fn start() -> Self {
        let (home, authority) = (Home::new(), authority());
        let tls = identity(&authority, &home, Role::Server, "s1");
        let (server, url) = home.server("data", &tls);
        let admin = identity(&authority, &home, Role::User, "root");
        Self { home, authority, url, admin, _server: server }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.home.path("data.log")).unwrap()
    }

    /// A certificate of an authority, with the root of ours beside it.
    fn issue(&self, of: &Authority, folder: &str, name: &str, validity: Validity) -> Vec<String> {
        let folder = self.home.path(folder);
        let request = IssueRequest::new(Role::User, name).group(ADMINS);
        let issued = of.issue(&request, validity).unwrap();
        let files = TlsFiles::in_folder(&folder);
        let (certificate, key) = (issued.certificate_pem(), issued.key_pem());
        files.write(self.authority.root_pem(), certificate, Some(key)).unwrap();
        arguments(&folder)
    }

    /// What openssl makes, in a folder with ours beside it.
    fn openssl(&self, folder: &str, script: &str) -> Vec<String> {
        let folder = self.home.path(folder);
        std::fs::create_dir_all(&folder).unwrap();
        self.authority.write_to(&folder).unwrap();
        let done = Command::new("sh")
            .args(["-ec", &format!("umask 077; {script}")])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        arguments(&folder)
    }

    /// What the client is told, and what the log of the server says of it.
    #[track_caller]
    fn refused(&self, shown: &[String], told: &str, logged: &str) {
        let before = self.log().len();
        let said = self.home.orrery(&with(&["get", "projects", "--server", &self.url], shown));
        assert_ne!(said.code, Some(0), "{said:?}");
        assert_eq!(said.out, "", "nothing is answered");
        assert!(said.err.contains(told), "expected {told:?}: {}", said.err);
        until("the log says why", || self.log()[before..].contains(logged).then_some(()));
    }
}

fn arguments(folder: &Path) -> Vec<String> {
    let text = |path: PathBuf| path.display().to_string();
    vec![
        "--root".into(),
        text(folder.join("ca.pem")),
        "--certificate".into(),
        text(folder.join("certificate.pem")),
        "--key".into(),
        text(folder.join("key.pem")),
    ]
}

const SELF_SIGNED: &str = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 \
    -keyout key.pem -out certificate.pem -subj '/O=orrery:admins/CN=root' \
    -addext 'subjectAltName=URI:spiffe://test.local/user/root' -addext 'extendedKeyUsage=clientAuth'";

const FOR_SERVERS: &str = "openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
    -keyout key.pem -out request.pem -subj '/O=orrery:admins/CN=root'
    printf 'subjectAltName=URI:spiffe://test.local/user/root\\nextendedKeyUsage=serverAuth\\n' > extensions
    openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -days 1 -extfile extensions \
    -out certificate.pem";

/// proves: AGT-12
#[test]
fn certificates_that_are_not_good() {
    let site = Site::start();
    site.home.orrery(&with(&["get", "projects", "--server", &site.url], &site.admin)).good();
    let of = |from: SystemTime, until: SystemTime| Validity { not_before: from, not_after: until };
    let (past, future) = (of(now() - 2 * HOUR, now() - HOUR), of(now() + HOUR, now() + 2 * HOUR));
    let good = of(now() - HOUR, now() + HOUR);
    let expired = site.issue(&site.authority, "expired", "root", past);
    site.refused(&expired, "expired", "expired");
    let early = site.issue(&site.authority, "early", "root", future);
    site.refused(&early, "not valid yet", "not valid yet");
    let stranger = site.issue(&authority(), "stranger", "root", good);
    site.refused(&stranger, "authority", "UnknownIssuer");
    let self_signed = site.openssl("self-signed", SELF_SIGNED);
    site.refused(&self_signed, "your certificate", "invalid peer certificate");
    let for_servers = site.openssl("for-servers", FOR_SERVERS);
    site.refused(&for_servers, "your certificate", "invalid peer certificate");

    // Disabled, while everybody else goes on.
    let eve = site.issue(&site.authority, "eve", "eve", good);
    site.home.orrery(&with(&["get", "projects", "--server", &site.url], &eve)).good();
    let file = site.home.write("revocation.yaml", REVOCATION);
    let file = file.display().to_string();
    site.home.orrery(&with(&["apply", "-f", &file, "--server", &site.url], &site.admin)).good();
    until("she is out", || {
        let said = site.home.orrery(&with(&["get", "projects", "--server", &site.url], &eve));
        (said.code != Some(0)).then_some(())
    });
    site.refused(&eve, "revoked", "Revoked");
    site.home.orrery(&with(&["get", "projects", "--server", &site.url], &site.admin)).good();
}

const REVOCATION: &str = "
apiVersion: core.orrery.dev/v1
kind: Revocation
metadata: {name: user-eve}
spec: {role: user, peer: eve, reason: left}
";

/// A server that is not who it should be: the client says what is wrong with it.
#[test]
fn servers_that_are_not_good() {
    let site = Site::start();
    let ask = |url: &str, tls: &[String]| {
        site.home.orrery(&with(&["get", "projects", "--server", url], tls)).bad(1)
    };
    // Signed by somebody else than whom we trust.
    let other = identity(&authority(), &site.home, Role::User, "other");
    let said = ask(&site.url, &other);
    assert!(said.contains("not of an authority that you trust"), "{said}");
    // Called by a name that its certificate does not say.
    let admin = &site.admin;
    let request = IssueRequest::new(Role::Server, "named").dns("orrery.example");
    let validity = Validity::starting(now(), HOUR);
    let named = site.authority.issue(&request, validity).unwrap();
    let files = TlsFiles::in_folder(&site.home.path("named"));
    files.write(named.root_pem(), named.certificate_pem(), Some(named.key_pem())).unwrap();
    let (_server, url) = site.home.server("named-data", &arguments(&site.home.path("named")));
    let said = ask(&url, admin);
    assert!(said.contains("not for this name"), "{said}");
}
