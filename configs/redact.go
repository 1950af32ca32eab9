package configs

import (
	"encoding/json"
	"fmt"
)

const redacted = "[redacted]"

// shown is a Config without its methods and secrets, for output.
type shown Config

func (c Config) shown() shown {
	for _, secret := range []*string{&c.DatabaseURL, &c.Database.DirectURL, &c.Database.ReadURL, &c.AdminKey, &c.AdminReadKey, &c.Outbound.ProxyURL,
		&c.Console.OpenID.ClientSecret, &c.Ingest.Log.URL} {
		if *secret != "" {
			*secret = redacted
		}
	}
	if len(c.EncryptionKeys) > 0 {
		c.EncryptionKeys = []string{redacted}
	}
	return shown(c)
}

// Format implements fmt.Formatter for every verb. Text logs use it.
func (c Config) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), c.shown())
}

// MarshalJSON implements json.Marshaler. JSON logs use it.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.shown()) }
