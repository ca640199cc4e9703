//! The examples below each command's help.

pub const UP: &str = "Examples:
  orrery up
  orrery up --tls
  orrery apply -f examples/hello.yaml";

pub const SERVER: &str = "Examples:
  orrery server --data-dir /var/lib/orrery
  orrery server --tls --tls-name orrery.example --listen 0.0.0.0:7443";

pub const AGENT: &str = "Examples:
  orrery agent --name edge-1 --server http://127.0.0.1:7443
  orrery agent --name edge-1 --server https://orrery.example:7443 --token orrery1.edge-k2x.9f...";

pub const TOKEN: &str = "Examples:
  orrery token create --role agent --name 'edge-*' --ttl 1h
  orrery token create --role driver --name qemu --uses 1
  orrery token create --user ci --group deployers --ttl 30d
  orrery get jointokens
  orrery delete accesstoken ci-7f3a01bc";

pub const JOIN: &str = "Examples:
  orrery join --role driver --name aws --server https://orrery.example:7443 --token orrery1... --dir identity
  orrery join --role controller --name rack-7 --server https://orrery.example:7443 --dir identity --renew";

pub const PKI: &str = "Examples:
  orrery pki init --dir pki --trust-domain example.org
  orrery pki issue --dir pki --role agent --name edge-1
  orrery pki issue --dir pki --role user --name ann --group orrery:admins
  orrery pki show pki/*.pem
  orrery pki rotate && orrery pki rotate --finish";

pub const AUTH: &str = "Examples:
  orrery auth whoami
  orrery auth can-i create workloads -p demo
  orrery auth can-i get secret/db -p demo
  orrery auth can-i --list -p demo";

pub const MESH: &str = "Examples:
  orrery mesh bootstrap --service books -p shop > books.yaml && envoy -c books.yaml
  orrery mesh bootstrap --service books -p shop --server https://orrery.example:7443 \\
    --token orrery1... --renew > books.yaml &
  orrery mesh status -p shop
  orrery mesh proxies -A";

pub const STORAGE_CONTROLLER: &str = "Examples:
  orrery storage-controller --id host-1
  orrery storage-controller --id host-1 --registry registry:8999 --listen 10.0.0.5:8998 \\
    --token orrery1.host-1-3d...
  orrery get storagecontrollers";

pub const CSI: &str = "Examples:
  orrery csi --endpoint unix:///run/csi/csi.sock --node-id host-1
  orrery csi --endpoint unix:///run/csi/csi.sock --node-id host-1 --registry registry:8999 \\
    --token orrery1.host-1-7c...";

pub const DRIVER: &str = "Examples:
  orrery driver process
  orrery driver aws --name aws --owner production --server orrery.example:5000 --token orrery1.aws-9f...";

pub const DRIVER_PROCESS: &str = "Example:
  orrery driver process
  orrery apply -f examples/machines.yaml
  orrery get machines -p machines --watch";

pub const DRIVER_QEMU: &str = "Example:
  orrery driver qemu
  orrery get drivers";

pub const DRIVER_AWS: &str = "Example:
  orrery driver aws --name aws --owner production --server orrery.example:5000 --token orrery1.aws-9f...
  orrery driver aws --owner production --server orrery.example:5000 \\
    --root ca.pem --certificate driver.pem --key driver-key.pem";

pub const APPLY: &str = "Examples:
  orrery apply -f hello.yaml
  orrery apply -f folder/ --wait --timeout 2m
  cat hello.yaml | orrery apply -f -
  orrery apply -f folder/ --prune -l team=web --dry-run";

pub const GET: &str = "Examples:
  orrery get workloads -p demo
  orrery get workloads -A --watch
  orrery get workload hello -p demo -o yaml
  orrery get workload/hello node/local
  orrery get all -A
  orrery get workload hello --versions
  orrery get workload hello --version 1.0 -o yaml
  orrery get workloads -A --sort-by .status.restarts --field-selector status.state=Running
  orrery get workload hello -o jsonpath='{.status.state}'
  orrery get workloads -o jsonpath='{range .items[*]}{.metadata.name}{\"\\n\"}{end}'";

pub const DESCRIBE: &str = "Examples:
  orrery describe workload hello -p demo
  orrery describe node/local
  orrery describe workloads -l app=web -A";

pub const EVENTS: &str = "Examples:
  orrery events -p demo
  orrery events --for workload/hello -p demo --watch";

pub const DIFF: &str = "Examples:
  orrery diff -f hello.yaml
  orrery diff -f folder/ && echo nothing to do";

pub const DELETE: &str = "Examples:
  orrery delete workload hello -p demo
  orrery delete workload/hello workload/other -p demo
  orrery delete workloads -l app=web
  orrery delete workloads --all -p demo
  orrery delete -f hello.yaml";

pub const EDIT: &str = "Examples:
  orrery edit workload hello -p demo
  EDITOR='code --wait' orrery edit project/demo";

pub const PATCH: &str = "Examples:
  orrery patch workload hello --project demo -p '{\"spec\":{\"restartPolicy\":\"never\"}}'
  orrery patch workload hello --type json \\
    -p '[{\"op\":\"replace\",\"path\":\"/spec/process/args/0\",\"value\":\"60\"}]'
  orrery patch project demo --patch-file patch.yaml";

pub const SCALE: &str = "Examples:
  orrery scale workload web --replicas 3 -p shop
  orrery scale machinedeployment pool --replicas 5 -p shop
  orrery scale workload web --replicas 0 --current-replicas 3 -p shop";

pub const RESTART: &str = "Examples:
  orrery restart workload web -p shop
  orrery restart workload web -p shop && orrery wait workload web -p shop --for condition=Ready";

pub const CORDON: &str = "Example:
  orrery cordon edge-1";

pub const UNCORDON: &str = "Example:
  orrery uncordon edge-1";

pub const DRAIN: &str = "Examples:
  orrery drain edge-1
  orrery drain edge-1 edge-2 --timeout 5m";

pub const LABEL: &str = "Examples:
  orrery label workload hello app=web tier=front
  orrery label workload/hello app=shop --overwrite
  orrery label workloads --all -p demo tier-";

pub const ANNOTATE: &str = "Examples:
  orrery annotate workload hello owner='the web team'
  orrery annotate workload/hello owner-";

pub const WAIT: &str = "Examples:
  orrery wait workload/hello -p demo --for condition=Ready --timeout 2m
  orrery wait workloads -l app=web --for delete
  orrery wait workload hello --for jsonpath='{.status.state}'=Running";

pub const EXPLAIN: &str = "Examples:
  orrery explain workload
  orrery explain workload.spec.process
  orrery explain workload --recursive";

pub const API_RESOURCES: &str = "Examples:
  orrery api-resources
  orrery api-resources -o wide
  orrery api-resources --api-group apps";

pub const CONTEXT: &str = "Examples:
  orrery context list
  orrery context set test --server http://127.0.0.1:7443 --project demo
  orrery context use test";

pub const COMPLETION: &str = "Examples:
  source <(orrery completion bash)
  orrery completion zsh > ~/.zfunc/_orrery
  orrery completion fish > ~/.config/fish/completions/orrery.fish";

pub const MAN: &str = "Example:
  orrery man ~/.local/share/man/man1 && man orrery-get";

pub const VERSION: &str = "Examples:
  orrery version
  orrery version --client";

pub const KUBECONFIG: &str = "Example:
  orrery kubeconfig > kubeconfig
  kubectl --kubeconfig kubeconfig get workloads";

pub const ARTIFACT: &str = "Examples:
  orrery artifact put workload/web app.conf etc/app.conf -p demo
  orrery artifact list workload/web -p demo
  orrery artifact get workload/web etc/app.conf -p demo
  tar c site | orrery artifact put workload/web - site.tar
  orrery artifact get workload/web site.tar - | tar t
  orrery artifact delete workload/web etc/app.conf site.tar";

pub const BACKUP: &str = "Example:
  orrery backup monday.backup";

pub const RESTORE: &str = "Example:
  orrery restore monday.backup --data-dir /var/lib/orrery-restored";

pub const TOP: &str = "Examples:
  orrery top server --interval 5
  orrery top nodes
  orrery top workloads -A";

pub const SECRETS: &str = "Examples:
  orrery secrets rotate-key
  orrery secrets status";

pub const LOGS: &str = "Examples:
  orrery logs hello -p hello
  orrery logs -f --tail 20 hello -p hello
  orrery logs --since 10m --timestamps hello -p hello
  orrery logs hello/hello-local-0a1b2c3d -p hello";

pub const EXEC: &str = "Examples:
  orrery exec hello -p hello -- env
  orrery exec -i -t hello/hello-local-0a1b2c3d -p hello -- /bin/sh";
