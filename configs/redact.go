package configs

import (
	"encoding/json"
	"fmt"
)

const redacted = "[redacted]"

// shown is a Config as it may be seen: the same without its methods.
type shown Config

func (c Config) shown() shown {
	for _, secret := range []*string{&c.DatabaseURL, &c.AdminKey, &c.Outbound.ProxyURL} {
		if *secret != "" {
			*secret = redacted
		}
	}
	if len(c.EncryptionKeys) > 0 {
		c.EncryptionKeys = []string{redacted}
	}
	return shown(c)
}

// Format implements fmt.Formatter, for every verb; logs as text use it too.
func (c Config) Format(f fmt.State, verb rune) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), c.shown())
}

// MarshalJSON implements json.Marshaler; logs as JSON use it too.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(c.shown()) }
