package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"golang.org/x/net/http/httpguts"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/send"
)

// signed signs requests with AWS Signature Version 4:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
type signed struct {
	client          send.Client
	now             func() time.Time
	signer          *v4.Signer
	key             aws.Credentials
	region, service string
}

func newSigned(d Deps, a eventhook.Auth) signed {
	return signed{d.Client, d.Now, v4.NewSigner(), aws.Credentials{AccessKeyID: a.AccessKeyID, SecretAccessKey: a.SecretAccessKey},
		a.Region, a.Service}
}

// Exchange implements send.Client.
func (s signed) Exchange(ctx context.Context, request *http.Request, maxBytes int) (int, http.Header, []byte, error) {
	sent, err := s.Prepare(ctx, request)
	if err != nil {
		return 0, nil, nil, err
	}
	return exchange(ctx, s.client, sent, maxBytes)
}

const amzPrefix = "X-Amz-"

// Answered implements send.Preparer. A signature is valid for its request only.
func (s signed) Answered(int, []byte) (isRenewed bool) { return false }

// Renew implements send.Preparer. There is nothing to renew.
func (s signed) Renew() {}

// Prepare implements send.Preparer: it returns a signed copy of a request. The signature covers the method, the URL, the
// body, and the headers host, content-type and x-amz-*. Other headers are not signed: a proxy
// could change them, and a signature over a changed header is refused.
func (s signed) Prepare(ctx context.Context, request *http.Request) (*http.Request, error) {
	sent, err := copyOf(request)
	if err != nil {
		return nil, err
	}
	hash, err := rewindableHash(sent)
	if err != nil {
		return nil, err
	}
	to := *request.URL
	basis := &http.Request{Method: request.Method, URL: &to, Header: http.Header{amzPrefix + "Content-Sha256": {hash}}}
	if basis.Host, err = httpguts.PunycodeHostPort(request.Host); err != nil {
		return nil, err
	}
	for name, values := range sent.Header {
		if name == "Content-Type" || strings.HasPrefix(name, amzPrefix) && name != amzPrefix+"Content-Sha256" {
			basis.Header[name] = values
		}
	}
	isS3 := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = strings.HasPrefix(s.service, "s3") }
	if err := s.signer.SignHTTP(ctx, s.key, basis, hash, s.service, s.region, s.now(), isS3); err != nil {
		return nil, err
	}
	for name, values := range basis.Header {
		sent.Header[name] = values
	}
	sent.URL, sent.Host = basis.URL, basis.Host // as they were signed
	return sent, nil
}

// rewindableHash returns the SHA-256 of the body of a request, which can still be sent.
func rewindableHash(r *http.Request) (string, error) {
	body := []byte(nil)
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return "", err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), nil
}
