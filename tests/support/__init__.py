"""What tests share: packages of third parties, devices without hardware, seeded bugs, lists of known failures."""
