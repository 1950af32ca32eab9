package targets

import (
	"cmp"
	"crypto/x509"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// maxPlace is the maximum length of a subject, a routing key, an exchange or a stream in bytes.
const maxPlace = 255

// maxServers is the maximum number of servers of one target.
const maxServers = 10

// compileBroker compiles a target that sends messages. If d.CheckHost is set, it checks the servers.
func compileBroker(d Deps, kind string, b Broker, s MessageSettings) (Effector, error) {
	if d.CheckHost != nil {
		for server := range strings.SplitSeq(b.Server(), ",") {
			if err := d.CheckHost(&url.URL{Scheme: kind, Host: strings.TrimSpace(server)}); err != nil {
				return nil, err
			}
		}
	}
	return s.compile(kind, b)
}

// checkServers checks a list of URLs of servers, which have one of the schemes.
func checkServers(f *eventhook.Faults, member, text, example string, schemes ...string) {
	list := strings.Split(text, ",")
	if len(list) > maxServers {
		f.Add(member, "names %d servers, at most %d are allowed", len(list), maxServers)
		return
	}
	for _, one := range list {
		u, err := url.Parse(strings.TrimSpace(one))
		switch {
		case err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" ||
			!isText(one) || u.Port() != "" && !eventhook.IsPort(u.Port()):
			f.Add(member, "must be a URL such as %s", example)
			return
		case u.User != nil:
			f.Add(member, "must not contain a user or a password: use username and password")
			return
		}
	}
}

// checkServer checks the URL of one server.
func checkServer(f *eventhook.Faults, member, text, example string, schemes ...string) {
	if strings.Contains(text, ",") {
		f.Add(member, "must name one server, such as %s", example)
		return
	}
	checkServers(f, member, text, example, schemes...)
}

// brokerPorts are the default ports of the schemes.
var brokerPorts = map[string]string{"nats": "4222", "tls": "4222", "amqp": "5672", "amqps": "5671", "redis": "6379", "rediss": "6379"}

// addressOf returns the host and the port of a URL that was checked.
func addressOf(text string) string {
	u := parsed(text)
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), brokerPorts[u.Scheme]))
}

// parsed returns a URL. A URL that was not checked may be empty.
func parsed(text string) *url.URL {
	if u, err := url.Parse(strings.TrimSpace(text)); err == nil {
		return u
	}
	return &url.URL{}
}

// checkAddresses checks a list of hosts with ports.
func checkAddresses(f *eventhook.Faults, member, text, example string) {
	list := strings.Split(text, ",")
	if len(list) > maxServers {
		f.Add(member, "names %d servers, at most %d are allowed", len(list), maxServers)
		return
	}
	for _, one := range list {
		host, port, err := net.SplitHostPort(strings.TrimSpace(one))
		if err != nil || host == "" || !eventhook.IsPort(port) || !isText(one) || strings.ContainsAny(host, " /@?#") {
			f.Add(member, "must be a host and a port, such as %s", example)
			return
		}
	}
}

// checkAddress checks a host with a port.
func checkAddress(f *eventhook.Faults, member, text, example string) {
	if strings.Contains(text, ",") {
		f.Add(member, "must name one server, such as %s", example)
		return
	}
	checkAddresses(f, member, text, example)
}

// checkLogin checks that a user name and a password are set together.
func checkLogin(f *eventhook.Faults, username, password string) {
	switch {
	case username != "" && password == "":
		f.Add("password", "is required by username")
	case username == "" && password != "":
		f.Add("username", "is required by password")
	}
}

// checkKeyed checks that a place with {key} has a path to the key.
func checkKeyed(f *eventhook.Faults, member, place, keyPath string) {
	if strings.Contains(place, "{key}") && keyPath == "" {
		f.Add(member, "has {key}, which needs key_path")
	}
}

func checkCA(f *eventhook.Faults, pem string) {
	if pem != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
		f.Add("ca", "must be certificates in PEM")
	}
}

func countSet(texts ...string) (n int) {
	for _, text := range texts {
		if text != "" {
			n++
		}
	}
	return n
}
