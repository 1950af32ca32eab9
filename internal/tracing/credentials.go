package tracing

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// discreetExporter omits the gateway's credentials from the errors of an exporter. Such an error
// quotes the collector's answer, and a proxy or a test server may answer with the request's headers.
type discreetExporter struct {
	sdktrace.SpanExporter
	credentials []string
}

// ExportSpans implements sdktrace.SpanExporter.
func (d discreetExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := d.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range d.credentials {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// readCredentials returns the words of the values of OTEL_EXPORTER_OTLP_HEADERS that are long enough
// to be secrets: name=value, separated by commas, with percent-encoding.
func readCredentials() (words []string) {
	const shortest = 8
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for header := range strings.SplitSeq(os.Getenv(name), ",") {
			_, value, _ := strings.Cut(header, "=")
			if decoded, err := url.PathUnescape(value); err == nil {
				value = decoded
			}
			for word := range strings.FieldsSeq(value) {
				if len(word) >= shortest {
					words = append(words, word)
				}
			}
		}
	}
	return words
}

var errRedirected = errors.New("the collector redirects to another address, which must not get OTEL_EXPORTER_OTLP_HEADERS; " +
	"correct OTEL_EXPORTER_OTLP_ENDPOINT")

// proxyOf returns the proxy for a request of the exporter, as the variables of the environment name
// it. The exporter asks for it before it sends a request. A redirect to another scheme, host or port
// is an error: the exporter would repeat the request there with all its headers.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		if from := r.Response.Request.URL; from.Scheme != r.URL.Scheme || from.Host != r.URL.Host {
			return nil, errRedirected
		}
	}
	return http.ProxyFromEnvironment(r)
}
