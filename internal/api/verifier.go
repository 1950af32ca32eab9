package api

// Verifier is a verify.Config as clients see it: the same fields, so that each
// converts into the other. docs/providers.md says which ones a type takes.
type Verifier struct {
	Type string `json:"type" enum:"api_key,aws_sns,basic_auth,body_hmac,hash,hmac,jwt,none,public_key,standard_webhooks,timestamped_hmac,url_form_hmac" doc:"The scheme. That nothing is verified must be said: none."`

	Header          string   `json:"header,omitempty" example:"X-Hub-Signature-256" doc:"Carries the signature or token."`
	AlsoHeaders     []string `json:"also_headers,omitempty" doc:"Others that may carry it instead."`
	HeaderPerSecret bool     `json:"header_per_secret,omitempty" doc:"The first secret is for header, the second for the first of also_headers, and so on."`
	HeaderJSON      string   `json:"header_json,omitempty" doc:"The member of the base64 encoded JSON object in the header that is the signature."`
	Query           string   `json:"query,omitempty" doc:"The parameter of the URL that may carry it instead."`
	Path            string   `json:"path,omitempty" doc:"The field of the body that carries it."`
	Items           string   `json:"items,omitempty" doc:"The objects of the body that are signed each for itself."`

	Prefix       string `json:"prefix,omitempty" example:"sha256=" doc:"Stands before each signature."`
	Separator    string `json:"separator,omitempty" doc:"Stands between several; a comma by default."`
	Encoding     string `json:"encoding,omitempty" doc:"hex by default, base64 or base64url."`
	TimestampKey string `json:"timestamp_key,omitempty" doc:"Names the timestamp in a header like t=…,v1=…"`
	SignatureKey string `json:"signature_key,omitempty" doc:"Names the signature there."`

	Signed         string   `json:"signed,omitempty" example:"{timestamp}.{body}" doc:"What is signed; the body by default."`
	Reserved       string   `json:"reserved,omitempty" doc:"A regular expression of messages that are no webhooks, since the provider's handshake has them signed for whoever asks."`
	Algorithm      string   `json:"algorithm,omitempty" doc:"sha256 by default; which others, depends on the type."`
	Secrets        []string `json:"secrets,omitempty" maxItems:"16" writeOnly:"true" doc:"All live: during a rotation the new one and the old one. Never shown again."`
	SecretEncoding string   `json:"secret_encoding,omitempty" doc:"text by default, base64, hex or sha1."`
	PublicKeys     []string `json:"public_keys,omitempty" maxItems:"16" doc:"PEM, JWK, or the raw key in hex or base64."`

	CertificateHeader string   `json:"certificate_header,omitempty" doc:"Carries the URL of the certificate."`
	CertificateHosts  []string `json:"certificate_hosts,omitempty" doc:"Where it must be; *.example.com stands for all hosts below. A path may follow a host: the URL's path must begin with it."`

	RequireHeaders map[string]string `json:"require_headers,omitempty" doc:"Headers that must be there with exactly these values."`

	TimestampHeader  string `json:"timestamp_header,omitempty" doc:"Carries the timestamp."`
	TimestampPath    string `json:"timestamp_path,omitempty" doc:"The field of the body that does."`
	TimestampUnit    string `json:"timestamp_unit,omitempty" doc:"seconds by default, milliseconds or rfc3339."`
	ToleranceSeconds *int   `json:"tolerance_seconds,omitempty" minimum:"0" maximum:"1000000000" doc:"How far it may lie from the receipt, either way; 300 by default, 0: it is not judged."`
	AllowFuture      bool   `json:"allow_future,omitempty" doc:"Judge the past only."`

	KeySetURL        string            `json:"jwks_url,omitempty" doc:"Where the keys of a JWT are published."`
	Issuers          []string          `json:"issuers,omitempty" doc:"Who may have issued it."`
	Audience         string            `json:"audience,omitempty" doc:"For whom it must be; {url} stands for the URL of the request."`
	Claims           map[string]string `json:"claims,omitempty" doc:"What else it must say; for aws_sns and public_key fields of the body with their values."`
	BodyHashClaim    string            `json:"body_hash_claim,omitempty" doc:"The claim that is the SHA-256 of the body."`
	BodyHashEncoding string            `json:"body_hash_encoding,omitempty" doc:"How that is written: hex by default, base64 or base64url."`

	Values   []string `json:"values,omitempty" maxItems:"16" writeOnly:"true" doc:"The tokens of api_key. Never shown again."`
	Username string   `json:"username,omitempty" doc:"Of basic_auth."`
	Password string   `json:"password,omitempty" writeOnly:"true" doc:"Of basic_auth. Never shown again."`
}
