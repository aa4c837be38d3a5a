"""Building an image: complete or absent, once per recipe, by one builder at a time."""

import shutil
from collections.abc import Callable
from pathlib import Path

from workers.guest.distribution import Distribution, this_distribution
from workers.guest.errors import ImageError
from workers.guest.image import DESCRIPTION, DISK, Description, image_digest, load_image, sha256_of, verify_image, write_description
from workers.guest.ingredients import make_files
from workers.guest.publish import only_builder, publish_directory, publish_text, scratch
from workers.guest.recipe import Recipe, files_of, find_recipe, recipe_digest
from workers.machine.driver import GuestImage

Say = Callable[[str], None]
RECIPES = "recipes"


def build(name: str, images_directory: Path, say: Say, *, fresh: bool = False) -> GuestImage:
    """The image of a recipe, built unless an equal recipe was built here before (`fresh` builds in any case).

    Prerequisites: the packages of workers/guest/packages.txt on Debian or Ubuntu, package lists fetched (apt-get update).
    On success: `<images>/<digest>` is complete, durable and read-only, and `<images>/recipes/<recipe digest>` names it.
    On failure: ImageError; no image was added, and what is half made is removed by this build or by the next.
    """
    recipe, distribution = find_recipe(name), this_distribution()
    files = files_of(recipe)
    digest = recipe_digest(recipe, distribution.label, files)
    known = None if fresh else remembered(images_directory, digest)
    if known:
        return known
    images_directory.mkdir(parents=True, exist_ok=True)
    with only_builder(images_directory, say):
        known = None if fresh else remembered(images_directory, digest)  # made by the builder that we waited for
        return known or build_now(recipe, distribution, files, digest, images_directory, say)


def remembered(images_directory: Path, recipe: str) -> GuestImage | None:
    """The image that an equal recipe gave, or None if there is none or it is no longer whole."""
    try:
        return load_image(images_directory / (images_directory / RECIPES / recipe).read_text().strip())
    except (FileNotFoundError, ImageError):
        return None


def build_now(
    recipe: Recipe, distribution: Distribution, files: dict[str, bytes], digest: str, images_directory: Path, say: Say
) -> GuestImage:
    with scratch(images_directory) as place:
        result = place / "result"
        result.mkdir()
        packages = make_files(recipe, distribution, files, place, result, say)
        say("hashing")
        description = describe(recipe, digest, distribution, packages, result)
        write_description(result, description)
        target = images_directory / description.digest
        if target.exists() and not whole(target):
            shutil.rmtree(target)
        if target.exists():
            (target / DESCRIPTION).touch()  # of the images of its name, it is the newest build
        else:
            publish_directory(result, target)
    publish_text(images_directory / RECIPES / digest, description.digest + "\n")
    say(f"ready: {target}")
    return load_image(target)


def describe(recipe: Recipe, digest_of_recipe: str, distribution: Distribution, packages: dict[str, str], result: Path) -> Description:
    names = ["kernel", "initrd", *([DISK] if recipe.disk_bytes else [])]
    digests = {name: sha256_of(result / name) for name in names}
    return Description(
        name=recipe.name,
        digest=image_digest(recipe.architecture, recipe.command_line, digests),
        architecture=recipe.architecture,
        kernel="kernel",
        initrd="initrd",
        disk=DISK if recipe.disk_bytes else None,
        disk_bytes=recipe.disk_bytes,
        command_line=recipe.command_line,
        default_memory_mib=recipe.default_memory_mib,
        recipe_digest=digest_of_recipe,
        distribution=distribution.label,
        packages=packages,
    )


def whole(directory: Path) -> bool:
    try:
        verify_image(directory)
    except ImageError:
        return False
    return True
