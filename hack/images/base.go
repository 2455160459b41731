package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"
)

// baseOf returns the base image for all images.
func (o options) baseOf(ctx context.Context, _ string) (name.Reference, build.Result, error) {
	ref, err := name.ParseReference(o.base)
	if err != nil {
		return nil, nil, err
	}
	if o.base == "scratch" {
		base, err := scratch(o.platforms)
		return ref, base, err
	}
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return nil, nil, fmt.Errorf("%w (without a registry: --base=scratch)", err)
	}
	if found.MediaType.IsIndex() {
		base, err := found.ImageIndex()
		return ref, base, err
	}
	base, err := found.Image()
	return ref, base, err
}

// scratch returns an empty image for each of the platforms.
func scratch(platforms []string) (build.Result, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, err
		}
		config := &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, Variant: platform.Variant, RootFS: v1.RootFS{Type: "layers"}}
		image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), config)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	return index, nil
}
