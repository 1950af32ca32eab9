package api

// Verifier is a verify.Config in the form of the API. Both have the same fields, so
// that they convert into each other. docs/providers.md lists the fields of each type.
type Verifier struct {
	Type string `json:"type" enum:"api_key,aws_sns,basic_auth,body_hmac,hash,hmac,jwt,none,public_key,standard_webhooks,timestamped_hmac,url_form_hmac" doc:"Type of verification. none turns verification off and must be given explicitly."`

	Header          string   `json:"header,omitempty" example:"X-Hub-Signature-256" doc:"Header with the signature or token."`
	AlsoHeaders     []string `json:"also_headers,omitempty" doc:"Other headers that may contain the signature or token instead."`
	HeaderPerSecret bool     `json:"header_per_secret,omitempty" doc:"Use the first secret for header, the second for the first of also_headers, and so on."`
	HeaderJSON      string   `json:"header_json,omitempty" doc:"Member with the signature, if the header contains a base64-encoded JSON object."`
	Query           string   `json:"query,omitempty" doc:"Query parameter that may contain the signature or token instead."`
	Path            string   `json:"path,omitempty" doc:"Field of the body with the signature or token."`
	Items           string   `json:"items,omitempty" doc:"Path of a list in the body whose objects are signed individually."`

	Prefix       string `json:"prefix,omitempty" example:"sha256=" doc:"Prefix of each signature."`
	Separator    string `json:"separator,omitempty" doc:"Separator between several signatures; default a comma."`
	Encoding     string `json:"encoding,omitempty" doc:"Encoding of the signature: hex (default), base64 or base64url."`
	TimestampKey string `json:"timestamp_key,omitempty" doc:"Name of the timestamp in a header of the form t=…,v1=…."`
	SignatureKey string `json:"signature_key,omitempty" doc:"Name of the signature in a header of the form t=…,v1=…."`

	Signed         string   `json:"signed,omitempty" example:"{timestamp}.{body}" doc:"Template of the signed message; default the body."`
	Reserved       string   `json:"reserved,omitempty" doc:"Regular expression of messages that are not accepted as webhooks, because the provider's handshake signs them on request of any caller."`
	Algorithm      string   `json:"algorithm,omitempty" doc:"Algorithm; default sha256. The supported values depend on the type."`
	Secrets        []string `json:"secrets,omitempty" maxItems:"16" writeOnly:"true" doc:"Accepted secrets; set the new and the old one during a rotation. Secrets are never returned."`
	SecretEncoding string   `json:"secret_encoding,omitempty" doc:"Encoding of the secrets: text (default), base64, hex or sha1."`
	PublicKeys     []string `json:"public_keys,omitempty" maxItems:"16" doc:"Public keys as PEM, JWK, or the raw key in hex or base64."`

	CertificateHeader string   `json:"certificate_header,omitempty" doc:"Header with the URL of the certificate."`
	CertificateHosts  []string `json:"certificate_hosts,omitempty" doc:"Hosts from which certificates are loaded. *.example.com allows all subdomains. If a path follows the host, the URL's path must begin with it."`

	RequireHeaders map[string]string `json:"require_headers,omitempty" doc:"Headers that must be present with exactly these values."`

	TimestampHeader  string `json:"timestamp_header,omitempty" doc:"Header with the timestamp."`
	TimestampPath    string `json:"timestamp_path,omitempty" doc:"Field of the body with the timestamp."`
	TimestampUnit    string `json:"timestamp_unit,omitempty" doc:"Unit of the timestamp: seconds (default), milliseconds or rfc3339."`
	ToleranceSeconds *int   `json:"tolerance_seconds,omitempty" minimum:"0" maximum:"1000000000" doc:"Allowed difference between timestamp and time of receipt in either direction, in seconds; default 300. 0: timestamps are not checked."`
	AllowFuture      bool   `json:"allow_future,omitempty" doc:"Accept timestamps in the future."`

	KeySetURL        string            `json:"jwks_url,omitempty" doc:"URL of the JSON Web Key Set."`
	Issuers          []string          `json:"issuers,omitempty" doc:"Accepted issuers of the JWT."`
	Audience         string            `json:"audience,omitempty" doc:"Required audience of the JWT; {url} stands for the URL of the request."`
	Claims           map[string]string `json:"claims,omitempty" doc:"Other claims that the JWT must contain. For aws_sns and public_key: fields of the body with their required values."`
	BodyHashClaim    string            `json:"body_hash_claim,omitempty" doc:"Claim with the SHA-256 of the body."`
	BodyHashEncoding string            `json:"body_hash_encoding,omitempty" doc:"Encoding of the body hash: hex (default), base64 or base64url."`

	Values   []string `json:"values,omitempty" maxItems:"16" writeOnly:"true" doc:"Accepted tokens, for the type api_key. They are never returned."`
	Username string   `json:"username,omitempty" doc:"User name, for the type basic_auth."`
	Password string   `json:"password,omitempty" writeOnly:"true" doc:"Password, for the type basic_auth. It is never returned."`
}
