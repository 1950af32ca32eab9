package main

import (
	"crypto/x509"
	_ "time/tzdata" // time zones for TZ on machines without them, such as the container image

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// trustBundledRoots makes TLS clients trust Mozilla's root certificates, which this program
// contains, if the machine has no root certificates. The script processes do not call it: they
// open no connections.
func trustBundledRoots() {
	roots := x509.NewCertPool()
	for c := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(c.Certificate)
		switch {
		case err != nil: // a form that this version of Go refuses
		case c.Constraint != nil:
			roots.AddCertWithConstraint(certificate, c.Constraint)
		default:
			roots.AddCert(certificate)
		}
	}
	x509.SetFallbackRoots(roots)
}
