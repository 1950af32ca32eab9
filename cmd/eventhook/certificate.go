package main

import (
	"log/slog"
	"net"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/certfile"
	"github.com/eventhook/eventhook/internal/httpguard"
)

// certificateInterval is how often the files of the certificate are compared.
const certificateInterval = 10 * time.Second

// loadCertificate returns the certificate of both listeners, nil if they serve plain HTTP.
func loadCertificate(c configs.Config, log *slog.Logger) (*certfile.Pair, error) {
	if !c.TLS.IsOn() {
		return nil, nil
	}
	pair, err := certfile.Load(certfile.Files{Cert: c.TLS.CertFile, Key: c.TLS.KeyFile}, log, time.Now)
	if err != nil {
		return nil, eventhook.Faults{{Location: "tls", Message: err.Error()}}.Err("the configuration is not valid")
	}
	return pair, nil
}

// guard returns the listener of a server, with TLS if it is configured.
func (g *gateway) guard(l net.Listener) net.Listener {
	if g.certificate == nil {
		return httpguard.Listener{Listener: l}
	}
	return httpguard.NewTLSListener(l, g.certificate.Config(), g.config.Server.ReadHeaderTimeout)
}

// scheme returns the beginning of the URLs of both listeners.
func (g *gateway) scheme() string {
	if g.certificate != nil {
		return "https://"
	}
	return "http://"
}
