package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

var errNoDocker = errors.New("docker does not answer")

const (
	image    = "postgres"
	imageTag = "17-alpine"
	// containerLife is the lifetime of a container whose test process has died.
	containerLife = 1800 // seconds
)

// startContainer starts a server in a container. It returns the URL of the server and a
// function that removes the container, or errNoDocker.
func startContainer(ctx context.Context) (base string, end func() error, err error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return "", nil, errNoDocker
	}
	if pool.Client.PingWithContext(ctx) != nil {
		return "", nil, errNoDocker
	}
	password := randomHex()
	c, err := pool.RunWithOptions(&dockertest.RunOptions{
		Repository: image,
		Tag:        imageTag,
		Env:        []string{"POSTGRES_PASSWORD=" + password},
		Cmd: []string{"postgres", "-c", "fsync=off", "-c", "full_page_writes=off",
			"-c", "synchronous_commit=off", "-c", "max_connections=200"},
	}, func(h *docker.HostConfig) { h.AutoRemove = true })
	if err != nil {
		return "", nil, fmt.Errorf("start the container: %w", err)
	}
	end = func() error { return pool.Purge(c) }
	if err := c.Expire(containerLife); err != nil {
		return "", nil, errors.Join(err, end())
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", password),
		Host: c.GetHostPort("5432/tcp"), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	err = pool.Retry(func() error {
		conn, err := pgx.Connect(ctx, u.String())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("wait for the container: %w", err), end())
	}
	return u.String(), end, nil
}
