package certfile

import (
	"crypto/x509"
	"fmt"
	"log/slog"
)

// Authorities are the authorities of the system and those of a PEM file. Safe for concurrent use.
type Authorities struct {
	file watched[x509.CertPool]
	log  *slog.Logger
}

// LoadAuthorities reads a file. The error names it.
func LoadAuthorities(name string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{log: log}
	a.file.names = []string{name}
	a.file.parse = func(contents [][]byte) (*x509.CertPool, error) {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // a system without certificates
		}
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("%s has no certificate in PEM", name)
		}
		return pool, nil
	}
	_, err := a.file.read()
	return a, err
}

// Current returns the authorities in use. They must not be changed.
func (a *Authorities) Current() *x509.CertPool { return a.file.current.Load() }

// Reload reads the file again. If it cannot be used, Reload logs an error, once until the error
// changes, and the former authorities stay.
func (a *Authorities) Reload() {
	isNew, err := a.file.reload()
	if err != nil {
		a.log.Error("the trusted authorities cannot be replaced; the former ones stay in use", "error", err)
	}
	if isNew {
		a.log.Info("the trusted authorities were replaced", "file", a.file.names[0])
	}
}
