package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/ko/pkg/build"
	"github.com/google/ko/pkg/publish"
	specs "github.com/opencontainers/image-spec/specs-go/v1"
)

// user is the ID of the user in distroless's nonroot images. It is a number, because Kubernetes cannot check whether
// a user with a name is root.
const user = "65532:65532"

// linkedVersion is the Go variable that holds a program's version.
const linkedVersion = "github.com/mehdiazizian/liqo-resource-broker/internal/version.linked"

type options struct {
	source     string
	base       string
	platforms  []string
	repository string
	tag        string
	version    string
	revision   string
	created    int64
	push       bool
	out        string
}

// build builds the image of one main package. importPath is relative to the folder of the module.
func (o options) build(ctx context.Context, importPath string) error {
	if len(o.platforms) > 1 && !o.push {
		return fmt.Errorf("a tarball holds one platform, not %v: use --push, or one --platform at a time", o.platforms)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	image := path.Base(importPath)
	builder, err := build.NewGo(ctx, o.source, o.settings(image)...)
	if err != nil {
		return err
	}
	importPath, err = builder.QualifyImport(importPath)
	if err != nil {
		return err
	}
	if err := builder.IsSupportedReference(importPath); err != nil {
		return err
	}
	result, err := builder.Build(ctx, importPath)
	if err != nil {
		return err
	}
	return o.publish(ctx, image, importPath, result)
}

func (o options) settings(image string) []build.Option {
	created := time.Unix(o.created, 0).UTC()
	settings := []build.Option{
		build.WithBaseImages(o.baseOf),
		build.WithPlatforms(o.platforms...),
		build.WithUser(user),
		build.WithTrimpath(true),
		build.WithDefaultEnv([]string{"CGO_ENABLED=0"}),
		build.WithDefaultLdflags([]string{"-s", "-w", "-X", linkedVersion + "=" + cmp.Or(o.version, o.tag)}),
		build.WithCreationTime(v1.Time{Time: created}),
		build.WithSPDX(builtWith()),
		build.WithSBOMDir(o.out),
	}
	const project = "https://github.com/mehdiazizian/liqo-resource-broker"
	for key, value := range map[string]string{
		specs.AnnotationTitle:         "liqo-resource-broker " + image,
		specs.AnnotationDescription:   "Capacity of one Kubernetes cluster as a virtual node in another, by reservation",
		specs.AnnotationURL:           project,
		specs.AnnotationSource:        project,
		specs.AnnotationDocumentation: project + "/tree/main/docs",
		specs.AnnotationLicenses:      "Apache-2.0",
		specs.AnnotationVersion:       cmp.Or(o.version, o.tag),
		specs.AnnotationRevision:      o.revision,
		specs.AnnotationCreated:       created.Format(time.RFC3339),
	} {
		settings = append(settings, build.WithLabel(key, value), build.WithAnnotation(key, value))
	}
	return settings
}

// builtWith returns the version of ko, which the SBOMs name, or "(unknown)".
func builtWith() string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == "github.com/google/ko" {
			return dependency.Version
		}
	}
	return "(unknown)"
}

// publish pushes an image and writes its digest to a file. Without --push, it writes the image to a tarball instead.
func (o options) publish(ctx context.Context, image, importPath string, result build.Result) error {
	named := func(repository, _ string) string { return repository + "/" + image }
	if !o.push {
		tarball := publish.NewTarball(filepath.Join(o.out, image+".tar"), o.repository, named, []string{o.tag})
		if _, err := tarball.Publish(ctx, result, importPath); err != nil {
			return err
		}
		return tarball.Close()
	}
	registry, err := publish.NewDefault(o.repository, publish.WithAuthFromKeychain(authn.DefaultKeychain),
		publish.WithNamer(named), publish.WithTags([]string{o.tag}))
	if err != nil {
		return err
	}
	if _, err := registry.Publish(ctx, result, importPath); err != nil {
		return err
	}
	digest, err := result.Digest()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, image+".digest"), []byte(named(o.repository, "")+"@"+digest.String()+"\n"), 0o644)
}
