package configs

import "github.com/eventhook/eventhook"

// TLS names the files of the certificate of both listeners: PEM, the certificate with its
// intermediate certificates, and its key. If both names are empty, the listeners serve plain
// HTTP.
type TLS struct {
	CertFile string `config:"cert_file"`
	KeyFile  string `config:"key_file"`
}

// IsOn reports whether the listeners serve TLS.
func (t TLS) IsOn() bool { return t.CertFile != "" }

func (t TLS) validate(f *eventhook.Faults) {
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		f.Add("tls.cert_file", "also requires tls.key_file (EVENTHOOK_TLS_KEY_FILE)")
	case t.CertFile == "" && t.KeyFile != "":
		f.Add("tls.key_file", "also requires tls.cert_file (EVENTHOOK_TLS_CERT_FILE)")
	}
}
