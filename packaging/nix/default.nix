# Builds the tree it stands in: nix-build packaging/nix
{ pkgs ? import <nixpkgs> { } }:
let
  header = builtins.readFile ../../include/mimalloc.h;
  words = builtins.match ".*#define MI_MALLOC_VERSION ([0-9]+)([0-9][0-9])([0-9][0-9])\n.*" header;
  # Two digits, without a zero in front.
  number = n: toString (builtins.fromJSON (builtins.head (builtins.match "0?([0-9]+)" (builtins.elemAt words n))));
in
pkgs.stdenv.mkDerivation {
  pname = "libmimalloc";
  version = "${number 0}.${number 1}.${number 2}";
  src = ../..;
  nativeBuildInputs = [ pkgs.cmake pkgs.ninja ];
  cmakeFlags = [ "-DMI_INSTALL_TOPLEVEL=ON" "-DMI_SECURE=OFF" ];
  meta = {
    description = "Memory allocator with the interface of mimalloc.h 3.4";
    license = pkgs.lib.licenses.mit;
    platforms = pkgs.lib.platforms.linux;
  };
}
