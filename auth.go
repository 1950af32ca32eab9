package eventhook

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
)

// The types of Auth.
const (
	AuthBasic  = "basic"     // RFC 7617
	AuthOAuth2 = "oauth2"    // client credentials: RFC 6749, section 4.4
	AuthMTLS   = "mtls"      // a TLS client certificate
	AuthAWS    = "aws_sigv4" // AWS Signature Version 4
)

var authTypes = []string{AuthBasic, AuthOAuth2, AuthMTLS, AuthAWS}

// NoToken begins the error of an attempt for which a token endpoint issued no token. The rest of the
// error names the host of the endpoint, which customers must not see.
const NoToken = "no OAuth 2 token" //nolint:gosec // the text of an error

// Auth is how the gateway authenticates its requests to one receiver. The type determines
// which of the other members are set. An Auth prints and logs as [redacted], but marshals
// with its secrets: store it as the Secret that Seal returns.
type Auth struct {
	Type            string   `json:"type" yaml:"type" enum:"basic,oauth2,mtls,aws_sigv4" doc:"basic: user and password. oauth2: client credentials. mtls: a TLS client certificate. aws_sigv4: AWS Signature Version 4."`
	Username        string   `json:"username,omitempty" yaml:"username" maxLength:"512" doc:"basic: the user. It must not contain a colon."`
	Password        string   `json:"password,omitempty" yaml:"password" maxLength:"2048" doc:"basic: the password. Responses show [redacted]."`
	TokenURL        string   `json:"token_url,omitempty" yaml:"token_url" maxLength:"2048" doc:"oauth2: the URL of the token endpoint. It must be reachable under the rules for the destination."`
	ClientID        string   `json:"client_id,omitempty" yaml:"client_id" maxLength:"512" doc:"oauth2: the client id."`
	ClientSecret    string   `json:"client_secret,omitempty" yaml:"client_secret" maxLength:"2048" doc:"oauth2: the client secret. Responses show [redacted]. It must be given again if the scheme, host or port of token_url changes."`
	Scopes          []string `json:"scopes,omitempty" yaml:"scopes" maxItems:"50" doc:"oauth2: the scopes of the token. By default the request names none."`
	Certificate     string   `json:"certificate,omitempty" yaml:"certificate" maxLength:"32768" doc:"mtls: the client certificate in PEM, followed by its intermediate certificates."`
	PrivateKey      string   `json:"private_key,omitempty" yaml:"private_key" maxLength:"32768" doc:"mtls: the private key of the certificate in PEM, not encrypted. Responses show [redacted]."`
	CA              string   `json:"ca,omitempty" yaml:"ca" maxLength:"65536" doc:"mtls: certificates in PEM that are trusted to sign the receiver's certificate, instead of the public authorities."`
	AccessKeyID     string   `json:"access_key_id,omitempty" yaml:"access_key_id" maxLength:"128" doc:"aws_sigv4: the id of the access key."`
	SecretAccessKey string   `json:"secret_access_key,omitempty" yaml:"secret_access_key" maxLength:"256" doc:"aws_sigv4: the secret access key. Responses show [redacted]."`
	Region          string   `json:"region,omitempty" yaml:"region" maxLength:"64" doc:"aws_sigv4: the region, such as eu-west-1."`
	Service         string   `json:"service,omitempty" yaml:"service" maxLength:"64" doc:"aws_sigv4: the service, such as lambda, execute-api or events."`
}

// AuthMember is a text of an Auth.
type AuthMember struct {
	Name     string
	Text     *string
	IsSecret bool

	authType   string // the type that has the member
	maxLength  int    // in bytes
	isOptional bool
}

// Members returns the texts of all types. Writing to Text changes a.
func (a *Auth) Members() []AuthMember {
	const short, maxName, maxSecret, maxPEM, maxCA = 64, 512, 2048, 32 << 10, 64 << 10
	return []AuthMember{
		{Name: "username", Text: &a.Username, authType: AuthBasic, maxLength: maxName},
		{Name: "password", Text: &a.Password, authType: AuthBasic, maxLength: maxSecret, IsSecret: true},
		{Name: "token_url", Text: &a.TokenURL, authType: AuthOAuth2, maxLength: maxURL},
		{Name: "client_id", Text: &a.ClientID, authType: AuthOAuth2, maxLength: maxName},
		{Name: "client_secret", Text: &a.ClientSecret, authType: AuthOAuth2, maxLength: maxSecret, IsSecret: true},
		{Name: "certificate", Text: &a.Certificate, authType: AuthMTLS, maxLength: maxPEM},
		{Name: "private_key", Text: &a.PrivateKey, authType: AuthMTLS, maxLength: maxPEM, IsSecret: true},
		{Name: "ca", Text: &a.CA, authType: AuthMTLS, maxLength: maxCA, isOptional: true},
		{Name: "access_key_id", Text: &a.AccessKeyID, authType: AuthAWS, maxLength: 2 * short},
		{Name: "secret_access_key", Text: &a.SecretAccessKey, authType: AuthAWS, maxLength: 4 * short, IsSecret: true},
		{Name: "region", Text: &a.Region, authType: AuthAWS, maxLength: short},
		{Name: "service", Text: &a.Service, authType: AuthAWS, maxLength: short},
	}
}

// MapSecrets returns a copy in which each secret that is set is replaced with
// replace(member, text).
func (a Auth) MapSecrets(replace func(member, text string) string) Auth {
	a.Scopes = slices.Clone(a.Scopes)
	for _, m := range a.Members() {
		if m.IsSecret && *m.Text != "" {
			*m.Text = replace(m.Name, *m.Text)
		}
	}
	return a
}

// Redacted returns a copy with Redacted in place of each secret.
func (a Auth) Redacted() Auth {
	return a.MapSecrets(func(string, string) string { return Redacted })
}

// IsRedacted reports whether a member is a secret that is Redacted.
func (a Auth) IsRedacted(member string) bool {
	return slices.ContainsFunc(a.Members(), func(m AuthMember) bool { return m.Name == member && m.IsSecret && *m.Text == Redacted })
}

// KeepSecrets returns a copy in which each secret that is Redacted is replaced with the
// stored one, if it was stored for the same type and the same token endpoint.
func (a Auth) KeepSecrets(stored Auth) Auth {
	if !a.KeepsSecretsOf(stored) {
		return a
	}
	have := map[string]string{}
	for _, m := range stored.Members() {
		have[m.Name] = *m.Text
	}
	return a.MapSecrets(func(member, text string) string {
		if text == Redacted && have[member] != "" {
			return have[member]
		}
		return text
	})
}

// KeepsSecretsOf reports whether the secrets of another Auth may be used for a: both have
// the same type, and the scheme, host and port of their token endpoints are the same.
func (a Auth) KeepsSecretsOf(other Auth) bool {
	return a.Type == other.Type && (a.TokenURL == other.TokenURL || SameOrigin(a.TokenURL, other.TokenURL))
}

// Seal returns the Auth with its secrets as one Secret.
func (a Auth) Seal() Secret {
	type plain Auth
	raw, err := json.Marshal(plain(a))
	if err != nil {
		return Secret{} // cannot happen: all members are texts
	}
	return NewSecret(string(raw))
}

// OpenAuth returns the Auth that Seal returned as a Secret, or nil for an empty Secret.
func OpenAuth(s Secret) (*Auth, error) {
	if s.IsZero() {
		return nil, nil //nolint:nilnil // no Auth is a valid result
	}
	a := new(Auth)
	if err := json.Unmarshal([]byte(s.Reveal()), a); err != nil {
		return nil, fmt.Errorf("auth cannot be decoded") //nolint:err113 // the cause may quote a secret
	}
	return a, nil
}

// Format implements fmt.Formatter for every verb.
func (Auth) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// LogValue implements slog.LogValuer.
func (Auth) LogValue() slog.Value { return slog.StringValue(Redacted) }
